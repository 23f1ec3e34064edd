"""What the text of a Python program tells before it runs: whether it imports TensorFlow, and how much that may log.

Only for a program that imports it is a fork server worth its time and memory. The program's own modules are read too,
those that lie beside it. What cannot be read, and an import that is spelt in some other way, counts as no.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

MOST_FILES = 50
MOST_BYTES = 1_000_000
_IMPORT = re.compile(r"^[ \t]*(?:from|import)[ \t]+\.?(\w+)", re.MULTILINE)
_TENSORFLOW = re.compile(r"tensorflow\w*|tf_keras|keras")
_LOG_LEVEL = re.compile(
    r"""\benviron(\[|\.setdefault\()\s*["'](TF_CPP_MIN_LOG_LEVEL|TF_CPP_MAX_VLOG_LEVEL)["']\s*"""
    r"""(?:\]\s*=|,)\s*["'](\d+)["']"""
)


@dataclass(frozen=True)
class ProgramText:
    """Of a program's own lines on how much TensorFlow logs: the way, the variable and its text."""

    imports_tensorflow: bool = False
    log_levels: tuple[tuple[str, str, str], ...] = ()

    def log_variables(self, env: Mapping[str, str]) -> dict[str, str]:
        """The variables that it sets before TensorFlow reads them; those of `setdefault` only if `env` has none."""
        found: dict[str, str] = {}
        for way, name, value in self.log_levels:
            if way == "[" or name not in env:
                found.setdefault(name, value)
        return found


def read_program(program: Path) -> ProgramText:
    """What the program says, and the modules of its folder that it imports."""
    text = _text(program)
    levels = [(found[1], found[2], found[3]) for found in _LOG_LEVEL.finditer(text)]
    return ProgramText(_imports_tensorflow(text, program.parent), tuple(levels))


def _imports_tensorflow(program: str, folder: Path) -> bool:
    waiting, seen = [program], set[Path]()
    while waiting and len(seen) <= MOST_FILES:
        names = _IMPORT.findall(waiting.pop())
        if any(map(_TENSORFLOW.fullmatch, names)):
            return True
        beside = {folder / name for name in names}
        found = {file for one in beside for file in (one.with_suffix(".py"), one / "__init__.py") if file.is_file()}
        waiting += map(_text, found - seen)
        seen |= found
    return False


def _text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(MOST_BYTES).decode(errors="replace")
    except OSError:
        return ""
