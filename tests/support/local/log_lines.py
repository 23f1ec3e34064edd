"""What the log file of a container holds, line by line."""

from __future__ import annotations

import re
from pathlib import Path

LINE = re.compile(rb"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z stdout ([FP]) (.*)$", re.DOTALL)


def records(path: Path) -> list[tuple[str, bytes]]:
    """Return each line as its tag, F or P, and its text."""
    found = []
    for line in path.read_bytes().split(b"\n")[:-1]:
        match = LINE.match(line)
        assert match, line[:200]
        found.append((match[1].decode(), match[2]))
    return found


def text(path: Path) -> bytes:
    """Return what the program wrote."""
    return b"".join(part + (b"\n" if tag == "F" else b"") for tag, part in records(path))
