"""What is wrong with a manifest, and where: one line a problem, as a compiler would print it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

import msgspec

Path = tuple[str | int, ...]
"""The way from a document's root to a node: field names and list indexes."""


MOST_CHARACTERS = 600
"""Of each part of a problem: the value at fault may be as long as the file."""


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """One fault at one place; `line` and `column` count from 1, and 0 means that the place is not known."""

    path: str
    message: str
    hint: str = ""
    line: int = 0
    column: int = 0
    source: str = ""
    warning: bool = False

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "message", _bounded(self.message))
        msgspec.structs.force_setattr(self, "hint", _bounded(self.hint))

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.source, self.line, self.column) if part)
        said = f"{self.message}; {self.hint}" if self.hint else self.message
        parts = (place, "warning" if self.warning else "", _bounded(self.path), said)
        whole = ": ".join(part for part in parts if part)
        return whole.replace("\n", "\n    ")  # lines to copy stand apart from those of other problems


class InvalidManifest(Exception):
    """A manifest that cannot be used: `problems` are its errors, `warnings` what else was found."""

    def __init__(self, problems: Iterable[Problem], warnings: Iterable[Problem] = ()) -> None:
        self.problems = tuple(problems)
        self.warnings = tuple(warnings)
        super().__init__("\n".join(str(problem) for problem in self.problems))


def errors(problems: Iterable[Problem]) -> list[Problem]:
    """The problems that forbid the use of the manifest."""
    return [problem for problem in problems if not problem.warning]


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """Without repetition, in the order in which a reader meets them in the file."""
    return sorted(dict.fromkeys(problems), key=lambda problem: (problem.line, problem.column))


def _bounded(text: str) -> str:
    """The beginning and the end of a long text: what is wrong with a value is said after it."""
    half = MOST_CHARACTERS // 2
    return text if len(text) <= MOST_CHARACTERS else f"{text[:half]} ... {text[-half:]}"


_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*|<[a-z]+>")
_PART = re.compile(r'\.?([^.\[]+)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]')


def path_text(path: Sequence[str | int]) -> str:
    """`("spec", "containers", 0, "image")` as `spec.containers[0].image`; unusual keys as `limits["a.b/c"]`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN_KEY.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f"[{json.dumps(part, ensure_ascii=False)}]"
    return text


def path_parts(text: str) -> Path:
    """The reverse of `path_text`."""
    parts: list[str | int] = []
    for match in _PART.finditer(text):
        name, index, quoted = match.groups()
        parts.append(name if name else int(index) if index else json.loads(quoted))
    return tuple(parts)
