"""What the text of a Python program tells before it runs: whether it imports TensorFlow, and which variables it sets.

Only for a program that imports it is a fork server worth its time and memory. The program's own modules are read too,
those that lie beside it. What cannot be read, and a line that is spelt in some other way, counts as no.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tfjob.local.sandbox.pod_files import file_version

MOST_FILES = 50
MOST_BYTES = 1_000_000
_IMPORT = re.compile(r"(?:^|;)[ \t]*import[ \t]+([\w., \t]+)", re.MULTILINE)
_FROM = re.compile(r"(?:^|;)[ \t]*from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]*(?:\(([^)]*)\)|([\w, \t]*))", re.MULTILINE)
_TENSORFLOW = re.compile(r"tensorflow\w*|tf_keras|keras")
_COMMENT = re.compile(r"^[ \t]*#.*$", re.MULTILINE)
_SETS = re.compile(
    r"""\benviron\[\s*["'](?P<put>\w+)["']\s*\]\s*=(?!=)"""
    r"""|\bputenv\(\s*["'](?P<putenv>\w+)["']"""
    r"""|\benviron\.setdefault\(\s*["'](?P<default>\w+)["']"""
    r"""|\b(?:environ\.pop|unsetenv)\(\s*["'](?P<pop>\w+)["']"""
    r"""|\bdel\s+(?:\w+\.)?environ\[\s*["'](?P<delete>\w+)["']"""
)
_UPDATE = re.compile(r"\benviron\.update\(([^)]*)\)")
_UPDATED = re.compile(r"""["'](\w+)["']\s*:|\b(\w+)\s*=(?!=)""")
_LOG_LEVEL = re.compile(
    r"""\benviron(\[|\.setdefault\()\s*["'](TF_CPP_MIN_LOG_LEVEL|TF_CPP_MAX_VLOG_LEVEL)["']\s*"""
    r"""(?:\]\s*=|,)\s*["'](\d+)["']"""
)


@dataclass(frozen=True)
class ProgramText:
    """Of a program's lines on variables: the way, and the name; of those on how much TensorFlow logs the text too."""

    imports_tensorflow: bool = False
    sets: tuple[tuple[str, str], ...] = ()
    log_levels: tuple[tuple[str, str, str], ...] = ()

    def variables(self, env: Mapping[str, str]) -> list[str]:
        """The variables that its lines may leave otherwise than they are in `env`."""
        idle = {"default": True, "pop": False, "delete": False}
        return [name for way, name in self.sets if idle.get(way) is not (name in env)]

    def log_variables(self, env: Mapping[str, str]) -> dict[str, str]:
        """The variables that it sets before TensorFlow reads them; those of `setdefault` only if `env` has none."""
        found: dict[str, str] = {}
        for way, name, value in self.log_levels:
            if way == "[" or name not in env:
                found.setdefault(name, value)
        return found


def read_program(program: Path, root: Path | None = None) -> ProgramText:
    """What the program says, and its own modules that it imports: those below `root`, else those of its folder."""
    root = root or program.parent
    packages = [parent / "__init__.py" for parent in program.parents if root in parent.parents]
    waiting, seen = [program, *packages], {program, *packages}
    imports, sets = False, list[tuple[str, str]]()
    while waiting and len(seen) <= MOST_FILES:
        file = waiting.pop()
        said = _said(file)
        sets += said.sets
        imports |= any(not base and _TENSORFLOW.fullmatch(name.partition(".")[0]) for base, name in said.modules)
        found = {found for base, name in said.modules for found in _files(_folder(base, file, root), name)}
        waiting += sorted(found - seen, reverse=True)
        seen |= found
    return ProgramText(imports, tuple(sets), _said(program).log_levels)


@dataclass(frozen=True)
class _Said:
    """What one file says: what it imports, and its lines on variables."""

    modules: tuple[tuple[str, str], ...]
    sets: tuple[tuple[str, str], ...]
    log_levels: tuple[tuple[str, str, str], ...]


def _said(file: Path) -> _Said:
    return _read(file, file_version(str(file)))


@lru_cache(maxsize=10 * MOST_FILES)
def _read(file: Path, _version: tuple[int, int, int] | None) -> _Said:
    """Once for each version: every replica of a job runs the same program, and is looked at until it can start."""
    text = _text(file)
    levels = tuple((found[1], found[2], found[3]) for found in _LOG_LEVEL.finditer(text))
    return _Said(tuple(_modules(text)), tuple(_sets(text)), levels)


def _modules(text: str) -> Iterator[tuple[str, str]]:
    """What is imported: the dots before a name, and the name; of `from a import b` both a and a.b may be modules."""
    for words in _IMPORT.findall(text):
        for one in words.split(","):
            yield "", one.strip().partition(" ")[0]
    for dots, module, inner, rest in _FROM.findall(text):
        names = (one.strip().partition(" ")[0] for one in (inner or rest).split(","))
        for name in ("", *names):
            yield dots, f"{module}.{name}".strip(".")


def _folder(dots: str, file: Path, root: Path) -> Path:
    return file.parents[min(len(dots), len(file.parents)) - 1] if dots else root


def _files(folder: Path, name: str) -> Iterator[Path]:
    """The files below a folder that are run when a module is imported."""
    for part in name.split("."):
        if not part.isidentifier():
            return
        folder /= part
        for file in (folder.with_suffix(".py"), folder / "__init__.py"):
            if _is_file(file):
                yield file


def _is_file(file: Path) -> bool:
    """Not of a folder that we may not enter, either."""
    try:
        return file.is_file()
    except OSError:
        return False


def _sets(text: str) -> Iterator[tuple[str, str]]:
    text = _COMMENT.sub("", text)
    for found in _SETS.finditer(text):
        yield str(found.lastgroup), found[str(found.lastgroup)]
    for update in _UPDATE.findall(text):
        for quoted, bare in _UPDATED.findall(update):
            yield "update", quoted or bare


def _text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(MOST_BYTES).decode(errors="replace")
    except OSError:
        return ""
