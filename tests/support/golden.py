"""Golden files: the only place where tests assert the wording of messages. TFJOB_UPDATE_GOLDEN=1 rewrites them."""

from __future__ import annotations

import os
from pathlib import Path

UPDATE = os.environ.get("TFJOB_UPDATE_GOLDEN") == "1"


def check_golden(path: Path, text: str) -> None:
    """Compare the text with a golden file."""
    if UPDATE:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), f"{path.name} differs; TFJOB_UPDATE_GOLDEN=1 accepts the new text"
