"""The guide to TensorBoard says what really happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.docs.guide import GUIDES, play

TENSORBOARD = GUIDES / "tensorboard.md"


@pytest.mark.long
@pytest.mark.tensorflow
@pytest.mark.root
@pytest.mark.timeout(600)
def test_every_command_of_the_tensorboard_guide_prints_what_it_says(tmp_path: Path) -> None:
    with play(TENSORBOARD, tmp_path) as printed:
        assert list(printed)
