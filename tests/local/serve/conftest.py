"""Fixtures for tests of the model server."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.serve import models


@pytest.fixture(scope="session")
def saved_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the models that support/serve/export_models.py writes."""
    return models.saved_models(tmp_path_factory)
