"""The guide to TensorBoard says what really happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.guide import GUIDES, play

TENSORBOARD = GUIDES / "tensorboard.md"


@pytest.mark.long
@pytest.mark.tensorflow
@pytest.mark.root
@pytest.mark.timeout(240)
def test_every_command_of_the_tensorboard_guide_prints_what_it_says(tmp_path: Path) -> None:
    for command, printed in play(TENSORBOARD, tmp_path):
        assert command.matches(printed), f"{TENSORBOARD.name}:{command.line}: $ {command.command}\n{printed}"
