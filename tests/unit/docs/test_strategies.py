"""The guide to Keras and strategies has the table that the trainings check."""

from __future__ import annotations

from support.training.strategies import ROOT, table


def test_the_guide_has_the_table_of_combinations() -> None:
    """With other versions in the lock file, run tests/local/training/test_strategies.py in the long form again."""
    assert table() in (ROOT / "docs" / "guides" / "keras.md").read_text()
