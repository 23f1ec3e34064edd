"""The tool for conformance cases, made once."""

from __future__ import annotations

import pytest

from installed import Installed, for_ordinary_user, own


@pytest.fixture(scope="session")
def tool() -> Installed:
    return own()


@pytest.fixture(scope="session")
def user_tool(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return for_ordinary_user(tmp_path_factory.mktemp("everyone"))
