"""The tool, as the conformance cases use it."""

from __future__ import annotations

import pytest

from installed import Installed, own


@pytest.fixture(scope="session")
def tool() -> Installed:
    return own()
