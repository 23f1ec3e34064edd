"""Links inside a root file system, and its removal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tfjob.local.sandbox import rootfs


def test_removal_never_enters_an_entry_that_was_only_a_mount_point(tmp_path: Path) -> None:
    """Even if mountinfo lied, what lies in a skeleton's `home` is the host's."""
    directory = tmp_path / "rootfs" / "main.0"
    (directory / "root" / "home" / "alice").mkdir(parents=True)
    (directory / "journal").write_text(json.dumps({"skeleton": "root", "entries": ["home"]}) + "\n")
    with pytest.raises(OSError, match="not empty"):
        rootfs.remove_rootfs(tmp_path)
    assert (directory / "root" / "home" / "alice").exists()


def test_removal_follows_no_link_and_removes_closed_folders(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").touch()
    root = tmp_path / "pod" / "rootfs" / "main.0" / "root"
    (root / "closed" / "inner").mkdir(parents=True)
    (root / "link").symlink_to(outside)
    (root / "closed").chmod(0)
    rootfs.remove_rootfs(tmp_path / "pod")
    assert not (tmp_path / "pod" / "rootfs").exists()
    assert (outside / "file").exists()


@pytest.mark.parametrize(
    ("path", "resolved"),
    [
        ("/plain/missing/x", "/plain/missing/x"),
        ("/abs/x", "/plain/x"),
        ("/rel/x", "/plain/x"),
        ("/chain", "/plain"),
        ("/../../plain", "/plain"),
        ("/", "/"),
        ("/plain/up/x", "/x"),
    ],
)
def test_links_are_resolved_inside_the_root(tmp_path: Path, path: str, resolved: str) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "abs").symlink_to("/plain")
    (tmp_path / "rel").symlink_to("plain")
    (tmp_path / "chain").symlink_to("abs")
    (tmp_path / "plain" / "up").symlink_to("../../..")
    assert rootfs.resolve(str(tmp_path), path) == resolved


def test_a_loop_of_links_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="symbolic links"):
        rootfs.resolve(str(tmp_path), "/loop/x")
