"""A package for pods: files as one compressed archive, in parts that each fit in a ConfigMap.

The same files give the same bytes: times, owners and the order on this machine do not count.
"""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from tfjob.launch.project_files import ProjectFile

PART_BYTES = 1 << 20
"""An API server accepts at most 1 MiB of data in a ConfigMap."""
MOST_PARTS = 8
"""etcd keeps the parts in memory, for all jobs."""
MOST_BYTES = MOST_PARTS * PART_BYTES
DIGEST_CHARACTERS = 12


class TooLarge(Exception):
    """The archive has more than MOST_BYTES."""


@dataclass(frozen=True)
class Package:
    """The parts of an archive; `digest` stands for their content in names."""

    parts: tuple[bytes, ...]
    digest: str


def package(trees: Mapping[str, tuple[Path, Iterable[ProjectFile]]]) -> Package:
    """Pack trees of files: the name of each in the archive, its folder on this machine, and its files."""
    data = _Bounded()
    # Without a name and a time in its header, the compressed data depends only on the content.
    with (
        gzip.GzipFile("", "wb", compresslevel=6, fileobj=data, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for tree, (folder, files) in trees.items():
            for file in files:
                _add(archive, f"{tree}/{file.path}", folder, file)
    content = data.getvalue()
    parts = tuple(content[at : at + PART_BYTES] for at in range(0, len(content), PART_BYTES))
    return Package(parts, sha256(content).hexdigest()[:DIGEST_CHARACTERS])


def _add(archive: tarfile.TarFile, name: str, folder: Path, file: ProjectFile) -> None:
    info = tarfile.TarInfo(name)
    if file.link:
        info.type, info.linkname = tarfile.SYMTYPE, file.link
        archive.addfile(info)
        return
    info.mode = 0o755 if file.is_executable else 0o644
    with (folder / file.path).open("rb") as content:
        info.size = os.fstat(content.fileno()).st_size  # it may have changed since it was listed
        archive.addfile(info, content)


class _Bounded(io.BytesIO):
    """Memory for at most MOST_BYTES, so that a data set is refused before all of it is compressed."""

    def write(self, data: object, /) -> int:
        written = super().write(data)  # type: ignore[arg-type]
        if self.tell() > MOST_BYTES:
            raise TooLarge
        return written
