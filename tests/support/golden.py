"""Golden files: the only place where tests assert the wording of messages. TFJOB_UPDATE_GOLDEN=1 rewrites them."""

from __future__ import annotations

import fcntl
import os
import re
from pathlib import Path

UPDATE = os.environ.get("TFJOB_UPDATE_GOLDEN") == "1"

TESTS = Path(__file__).parents[1]

HEADING = re.compile(r"^## (.+)\n", re.MULTILINE)


def check_golden(path: Path, text: str) -> None:
    """Compare the text with a golden file."""
    if UPDATE:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), f"{path.name} differs; TFJOB_UPDATE_GOLDEN=1 accepts the new text"


def check_golden_section(path: Path, heading: str, text: str) -> None:
    """Compare the text with one section of a golden file that several tests share.

    An empty text has no section. An update keeps the sections of other tests: delete the file first to drop old ones.
    """
    assert not HEADING.search(text)
    text = text.rstrip("\n")
    if UPDATE:
        _write_section(path, heading, text)
    expected = golden_sections(path).get(heading, "")
    assert text == expected, f"{path.name}, section {heading}, differs; TFJOB_UPDATE_GOLDEN=1 accepts the new text"


def golden_sections(path: Path) -> dict[str, str]:
    """Return the sections of a shared golden file by heading."""
    parts = HEADING.split(path.read_text()) if path.exists() else [""]
    return {heading: text.rstrip("\n") for heading, text in zip(parts[1::2], parts[2::2], strict=True)}


def golden_of_module(test_file: Path) -> Path:
    """Return the golden file of a unit test module: unit/plan/policy/test_x.py has data/plan/golden/policy/x.txt."""
    room, *folders, name = test_file.relative_to(TESTS / "unit").with_suffix(".txt").parts
    return TESTS.joinpath("support", "data", room, "golden", *folders, name.removeprefix("test_"))


class Wording:
    """Compares the messages that one test sees with its sections in the golden file of its module."""

    def __init__(self, path: Path, heading: str, folder: Path | None) -> None:
        self.path = path
        self.heading = heading
        self.folder = folder
        self.calls = 0

    def __call__(self, *messages: object) -> None:
        """Compare the messages, one per line, with the next section of this test."""
        self.calls += 1
        heading = self.heading if self.calls == 1 else f"{self.heading} ({self.calls})"
        text = "\n".join(map(str, messages))
        if self.folder:
            text = text.replace(str(self.folder), "FOLDER")
        check_golden_section(self.path, heading, text)


def _write_section(path: Path, heading: str, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # pytest-xdist runs tests of one module in several processes
        sections = golden_sections(path) | {heading: text}
        file.truncate(0)
        file.write("\n".join(f"## {heading}\n{text}\n" for heading, text in sorted(sections.items()) if text))
