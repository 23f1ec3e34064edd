"""Find out from a Python program's source whether it imports TensorFlow and which environment variables it sets.

A fork server is worth its time and memory only for programs that import TensorFlow. The scan includes the program's own
modules, which are in its folder. Unreadable files and lines in an unusual form count as not found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
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
    """What a source contains: each variable that it sets, as (way, name), and each log level, as (way, name, value)."""

    imports_tensorflow: bool = False
    sets: tuple[tuple[str, str], ...] = ()
    log_levels: tuple[tuple[str, str, str], ...] = ()

    def variables(self, env: Mapping[str, str]) -> list[str]:
        """Return the variables that the program may change from their value in `env`."""
        idle = {"default": True, "pop": False, "delete": False}
        return [name for way, name in self.sets if idle.get(way) is not (name in env)]

    def log_variables(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the log levels that the program sets; those of `setdefault` only if `env` does not have them."""
        found: dict[str, str] = {}
        for way, name, value in self.log_levels:
            if way == "[" or name not in env:
                found.setdefault(name, value)
        return found


def read_program(program: Path, root: Path | None = None) -> ProgramText:
    """Scan the program and the modules that it imports from `root` (default: the program's folder)."""
    root = root or program.parent
    packages = [parent / "__init__.py" for parent in program.parents if root in parent.parents]
    waiting, seen = [program, *packages], {program, *packages}
    imports, sets = False, list[tuple[str, str]]()
    while waiting and len(seen) <= MOST_FILES:
        file = waiting.pop()
        modules, file_sets, _ = _scan(file, file_version(str(file)))
        sets += file_sets
        imports |= any(not base and _TENSORFLOW.fullmatch(name.partition(".")[0]) for base, name in modules)
        found = {found for base, name in modules for found in module_files(base, name, file, root)}
        waiting += sorted(found - seen, reverse=True)
        seen |= found
    return ProgramText(imports, tuple(sets), tuple(_scan(program, file_version(str(program)))[2]))


def find_module(name: str, locate: Callable[[str], Path]) -> tuple[Path, Path] | None:
    """Return the file that `python -m NAME` runs, and the folder from which it imports; None if there is no file.

    `locate` returns the real path of a path relative to the working folder.
    """
    depth = name.count(".")  # how deep the module's file is below the folder from which modules are imported
    for ending, above in ((".py", depth), ("/__main__.py", depth + 1)):
        file = locate(name.replace(".", "/") + ending)
        if file.is_file():
            return file, file.parents[min(above, len(file.parents) - 1)]
    return None


def module_files(dots: str, name: str, file: Path, root: Path) -> Iterator[Path]:
    """Yield the files below `root` that an import of a module in `file` runs; a relative one starts with `dots`."""
    folder = file.parents[min(len(dots), len(file.parents)) - 1] if dots else root
    for part in name.split("."):
        if not part.isidentifier():
            return
        folder /= part
        for one in (folder.with_suffix(".py"), folder / "__init__.py"):
            if file_version(str(one)):
                yield one


@lru_cache(maxsize=10 * MOST_FILES)
def _scan(
    file: Path, _version: tuple[int, int, int] | None
) -> tuple[list[tuple[str, str]], list[tuple[str, str]], list[tuple[str, str, str]]]:
    """Return the modules, variables and log levels of one version of a file, scanned once for all replicas."""
    try:
        with file.open("rb") as opened:
            text = opened.read(MOST_BYTES).decode(errors="replace")
    except OSError:
        return [], [], []
    return (
        list(_modules(text)),
        list(_sets(text)),
        [(found[1], found[2], found[3]) for found in _LOG_LEVEL.finditer(text)],
    )


def _modules(text: str) -> Iterator[tuple[str, str]]:
    """Yield the leading dots and the name of each import; for `from a import b`, both a and a.b may be modules."""
    for words in _IMPORT.findall(text):
        for one in words.split(","):
            yield "", one.strip().partition(" ")[0]
    for dots, module, inner, rest in _FROM.findall(text):
        names = (one.strip().partition(" ")[0] for one in (inner or rest).split(","))
        for name in ("", *names):
            yield dots, f"{module}.{name}".strip(".")


def _sets(text: str) -> Iterator[tuple[str, str]]:
    text = _COMMENT.sub("", text)
    for found in _SETS.finditer(text):
        yield str(found.lastgroup), found[str(found.lastgroup)]
    for update in _UPDATE.findall(text):
        for quoted, bare in _UPDATED.findall(update):
            yield "update", quoted or bare
