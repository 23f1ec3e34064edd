"""Whether a Python program imports TensorFlow, by its text: only then is a fork server worth its time and memory.

The program's own modules are read too, those that lie beside it. What cannot be read, and an import that is spelt in
some other way, counts as no.
"""

from __future__ import annotations

import re
from pathlib import Path

MOST_FILES = 50
MOST_BYTES = 1_000_000
_IMPORT = re.compile(r"^[ \t]*(?:from|import)[ \t]+\.?(\w+)", re.MULTILINE)
_TENSORFLOW = re.compile(r"tensorflow\w*|tf_keras|keras")


def import_tensorflow(program: Path) -> bool:
    """Whether the program, or a module of its folder that it imports, names TensorFlow or Keras in an import."""
    waiting, seen = [program], {program}
    while waiting and len(seen) <= MOST_FILES:
        names = _IMPORT.findall(_text(waiting.pop()))
        if any(map(_TENSORFLOW.fullmatch, names)):
            return True
        folder = program.parent
        beside = {folder / name for name in names}
        found = {file for one in beside for file in (one.with_suffix(".py"), one / "__init__.py") if file.is_file()}
        waiting += found - seen
        seen |= found
    return False


def _text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(MOST_BYTES).decode(errors="replace")
    except OSError:
        return ""
