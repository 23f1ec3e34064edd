"""Which cases are asked of which level."""

from __future__ import annotations

import pytest

from support.conformance.cases import asked_of


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A case is only there for those of whom it is asked."""
    items[:] = filter(_is_asked, items)


def _is_asked(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    if callspec is None or not {"cluster", "case"} <= callspec.params.keys():
        return True
    level, _ = callspec.params["cluster"]
    return callspec.params["case"] in asked_of(level)
