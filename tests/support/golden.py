"""Compare text with a golden file."""

from __future__ import annotations

import os
from pathlib import Path


def check_golden(path: Path, text: str) -> None:
    """Compare `text` with the file; TFJOB_UPDATE_GOLDEN=1 writes the file anew."""
    if os.environ.get("TFJOB_UPDATE_GOLDEN") == "1":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), f"{path.name} differs; TFJOB_UPDATE_GOLDEN=1 accepts the new text"
