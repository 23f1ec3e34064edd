"""Problems of a manifest with their positions, each printed as one line like a compiler error."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from tfjob.errors import UserError

Path = tuple[str | int, ...]
"""The path from the root of a document to a value: field names and list indexes."""

MOST_CHARACTERS = 600
"""The maximum length of a message or hint: the wrong value may be as long as the file."""


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """One fault at one position; `line` and `column` count from 1, and 0 means that they are unknown."""

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
        return whole.replace("\n", "\n    ")  # separates the lines from other problems


class InvalidManifest(UserError):
    """A manifest with errors (`problems`) and perhaps warnings."""

    def __init__(self, problems: Iterable[Problem], warnings: Iterable[Problem] = ()) -> None:
        self.problems = tuple(problems)
        self.warnings: tuple[Problem, ...] = tuple(warnings)
        lines = [str(problem) for problem in self.problems]
        several = f"found {len(lines)} errors, so nothing was done:"
        super().__init__(lines[0] if len(lines) == 1 else "\n  ".join((several, *lines)))

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


def errors(problems: Iterable[Problem]) -> list[Problem]:
    return [problem for problem in problems if not problem.warning]


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """Return the problems without duplicates, in the order of the file."""
    return sorted(dict.fromkeys(problems), key=lambda problem: (problem.line, problem.column))


def _bounded(text: str) -> str:
    """Return the beginning and the end of a long string, because the message follows the value."""
    half = MOST_CHARACTERS // 2
    return text if len(text) <= MOST_CHARACTERS else f"{text[:half]} ... {text[-half:]}"


_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*|<[a-z]+>")
_PART = re.compile(r'\.?([^.\[]+)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]')


def path_text(path: Sequence[str | int]) -> str:
    """Return `("spec", "containers", 0, "image")` as `spec.containers[0].image`; unusual keys as `limits["a.b/c"]`."""
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
    """Reverse `path_text`."""
    parts: list[str | int] = []
    for match in _PART.finditer(text):
        name, index, quoted = match.groups()
        parts.append(name if name else int(index) if index else json.loads(quoted))
    return tuple(parts)


def problem_at(path: Sequence[str | int], message: str, hint: str = "", *, warning: bool = False) -> Problem:
    return Problem(path_text(path), message, hint, warning=warning)


def invalid_value(path: Sequence[str | int], value: object, rule: str) -> Problem:
    """Return a problem with the message of an API server."""
    return problem_at(path, f"Invalid value: {json.dumps(value, separators=(',', ':'))}: {rule}")


def unsupported_value(value: str | None, known: Iterable[str], path: Sequence[str | int]) -> Iterator[Problem]:
    """Yield a problem with the message of an API server if a value is not one of the known ones."""
    if value and value not in known:
        values = ", ".join(json.dumps(one) for one in sorted(known))
        yield problem_at(path, f"Unsupported value: {json.dumps(value)}: supported values: {values}")
