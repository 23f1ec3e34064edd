"""Which cases are asked of which level."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A case is only asked of the levels that can do it at all."""
    items[:] = [item for item in items if _is_possible(item)]


def _is_possible(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    if callspec is None or not {"cluster", "case"} <= callspec.params.keys():
        return True
    level, _ = callspec.params["cluster"]
    return level in callspec.params["case"].levels
