"""An archive depends only on the files in it, and fits into ConfigMaps."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from tfjob.launch.package import MOST_BYTES, PART_BYTES, Package, TooLarge, package
from tfjob.launch.project_files import ProjectFile


def packed(folder: Path, *files: ProjectFile) -> Package:
    return package({"project": (folder, files)})


def unpacked(found: Package) -> dict[str, tuple[int, bytes | str]]:
    """Return the mode and the content, or the target, of each member."""
    with tarfile.open(fileobj=io.BytesIO(b"".join(found.parts)), mode="r:gz") as archive:
        members = {}
        for one in archive.getmembers():
            content = archive.extractfile(one) if one.isfile() else None
            members[one.name] = (one.mode, content.read() if content else one.linkname)
        return members


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "train.py").write_text("print(1)\n")
    (tmp_path / "pkg" / "größe.py").write_text("")
    return tmp_path


def test_an_archive_has_contents_modes_and_links(folder: Path) -> None:
    files = (
        ProjectFile("pkg/größe.py", 0),
        ProjectFile("train.py", 9, True),
        ProjectFile("link.py", 0, False, "train.py"),
    )
    assert unpacked(packed(folder, *files)) == {
        "project/pkg/größe.py": (0o644, b""),
        "project/train.py": (0o755, b"print(1)\n"),
        "project/link.py": (0o644, "train.py"),
    }


def test_the_same_files_give_the_same_bytes(folder: Path) -> None:
    first = packed(folder, ProjectFile("train.py", 9))
    os.utime(folder / "train.py", (1, 1))
    (folder / "train.py").chmod(0o600)
    assert packed(folder, ProjectFile("train.py", 9)) == first
    (folder / "train.py").write_text("print(2)\n")
    assert packed(folder, ProjectFile("train.py", 9)).digest != first.digest


def test_a_large_archive_has_parts_that_fit_in_a_config_map(folder: Path) -> None:
    content = os.urandom(2 * PART_BYTES)
    (folder / "data").write_bytes(content)
    found = packed(folder, ProjectFile("data", len(content)))
    assert [len(part) for part in found.parts[:-1]] == [PART_BYTES, PART_BYTES]
    assert unpacked(found)["project/data"] == (0o644, content)


def test_an_archive_that_needs_too_many_config_maps_is_refused(folder: Path) -> None:
    (folder / "data").write_bytes(os.urandom(MOST_BYTES))
    with pytest.raises(TooLarge):
        packed(folder, ProjectFile("data", MOST_BYTES))
