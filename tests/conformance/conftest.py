"""Which cases are asked of which level and user."""

from __future__ import annotations

import pytest

from conformance.cases import asked_of


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A case is only there for those of whom it is asked."""
    items[:] = [item for item in items if _is_asked(item, config.getoption("--long"))]


def _is_asked(item: pytest.Item, long: bool) -> bool:
    callspec = getattr(item, "callspec", None)
    if callspec is None or not {"cluster", "case"} <= callspec.params.keys():
        return True
    level, who = callspec.params["cluster"]
    return callspec.params["case"] in asked_of(level, who, long)
