"""Volumes that would hide a container's interpreter: mounted over a folder in which it, or a link to it, stands.

A cluster's image brings its own Python; here it is a file of the host, and a volume over one of its parent folders
puts something else in its place. A volume that has the same files at the same paths hides nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PYTHON_WORD = re.compile(r"(?<![\w-])python[\d.]*(?![\w-])")


@dataclass(frozen=True)
class Cover:
    """What is mounted somewhere; `source` is the host's folder or file, None for contents that are a volume's own."""

    what: str
    target: str
    source: Path | None


@dataclass(frozen=True)
class Shadow:
    """The cover, by its number, that hides `path`, which the interpreter is or needs."""

    cover: int
    path: Path

    def sentence(self, covers: Sequence[Cover], interpreter: Path) -> str:
        """What hides what."""
        cover = covers[self.cover]
        hides = f"{cover.what} at {cover.target} hides"
        if self.path == interpreter:
            return f"{hides} the interpreter {interpreter}"
        return f"{hides} {self.path}, which the interpreter {interpreter} needs"


def covers(
    container: Mapping[str, Any],
    volumes: Sequence[Mapping[str, Any]],
    mapping: Mapping[str, Path],
    folders: Mapping[str, Path] | None = None,
) -> list[Cover]:
    """The mounts of a container of a pod with these volumes, then the folders that stand in for its image's.

    `mapping` leads some of the volumes to folders of the host.
    """
    sources = {
        volume.get("name"): Path(volume["hostPath"]["path"])
        for volume in volumes
        if (volume.get("hostPath") or {}).get("path")
    }
    found = []
    for mount in container.get("volumeMounts") or []:
        name = mount.get("name") or ""
        source = None if mount.get("subPathExpr") else mapping.get(name) or sources.get(name)
        if source is not None:
            source = source / (mount.get("subPath") or "")
        found.append(Cover(f'volume "{name}"', mount.get("mountPath") or "", source))
    return found + [Cover("the image's folder", inside, here) for inside, here in (folders or {}).items()]


def find(covers: Sequence[Cover], interpreter: Path) -> Shadow | None:
    """The first thing that an interpreter needs and that a container with these volumes would not see."""
    targets = [Path(os.path.realpath(cover.target)) for cover in covers]
    for path in needed(interpreter):
        above = [number for number, target in enumerate(targets) if path.is_relative_to(target)]
        if above:
            # The deepest one is mounted last, so it alone says what is there.
            deepest = max(above, key=lambda number: len(targets[number].parts))
            source = covers[deepest].source
            if source is None or not os.path.lexists(source / path.relative_to(targets[deepest])):
                return Shadow(deepest, path)
    return None


def needed(interpreter: Path) -> list[Path]:
    """What a start of the interpreter reads, at its real place: each link on the way, the program, their libraries."""
    way = list(_way(interpreter))
    libraries = [place.parent.parent / "lib" for place in way if place.parent.name == "bin"]
    return [*way, *(place for library in libraries if library.is_dir() for place in _way(library))]


def needs_python(argv: Sequence[str], interpreter: Path) -> bool:
    """Whether a container's words name Python, or a program that stands beside it such as a virtualenv's script."""
    if any(_PYTHON_WORD.search(word) for word in argv):
        return True
    program = interpreter.parent / (argv[0] if argv else "")
    return program.parent == interpreter.parent and program.is_file()


def _way(path: Path) -> Iterator[Path]:
    """Every symbolic link that a look-up of `path` follows, and the file at its end."""
    for part in (*reversed(path.parents), path):
        if part.is_symlink():
            place = part.parent.resolve() / part.name
            yield place
            yield from _way(place.parent / place.readlink() / path.relative_to(part))
            return
    yield path.resolve()
