"""Event files as a training writes them, made without TensorFlow."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType


def write_scalar(folder: Path, tag: str, values: list[float]) -> Path:
    """Writes one event file with the steps of a scalar; returns it."""
    # What TensorBoard takes for an installation without TensorFlow, which takes seconds to import.
    sys.modules.setdefault("tensorboard.compat.notf", ModuleType("notf"))
    from tensorboard.summary import Writer  # type: ignore[import-untyped]

    folder.mkdir(parents=True, exist_ok=True)
    before = set(folder.iterdir())
    writer = Writer(str(folder))
    for step, value in enumerate(values):
        writer.add_scalar(tag, value, step)
    writer.close()
    (made,) = set(folder.iterdir()) - before
    return made
