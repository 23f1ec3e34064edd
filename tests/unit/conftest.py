"""Fixtures of the unit tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.golden import Wording, golden_of_module


@pytest.fixture
def wording(request: pytest.FixtureRequest) -> Wording:
    """Messages of this test are compared with its section in the golden file of its module."""
    folder: Path | None = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    return Wording(golden_of_module(request.path), request.node.name, folder)
