"""Which volume would hide a container's interpreter."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfjob.local.admission import shadows
from tfjob.local.admission.shadows import Cover


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A virtualenv below a linked folder, made from an interpreter elsewhere: PATH is home -> disk, home/env, base."""
    for folder in ("base/bin", "base/lib", "disk/env/bin", "disk/env/lib", "other"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "base/bin/python3.11").touch()
    (tmp_path / "base/bin/python3").symlink_to("python3.11")
    (tmp_path / "home").symlink_to("disk")
    (tmp_path / "disk/env/bin/python").symlink_to(tmp_path / "base/bin/python3")
    (tmp_path / "disk/env/bin/train").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("target", "hidden"),
    [
        ("other", None),
        ("new/folder", None),
        ("home/env/data", None),
        ("home/env/bin/python.d", None),
        ("home/env/bin/python", "base/bin/python3.11"),  # a mount at a link covers what the link leads to
        ("home/env/bin", "disk/env/bin/python"),
        ("home/env", "disk/env/bin/python"),
        ("home", "disk/env/bin/python"),
        ("disk", "disk/env/bin/python"),
        ("home/env/lib", "disk/env/lib"),
        ("home/../disk/env/.", "disk/env/bin/python"),
        ("base/bin/python3", "base/bin/python3.11"),
        ("base/bin", "base/bin/python3"),
        ("base", "base/bin/python3"),
        ("base/lib", "base/lib"),
        (".", "home"),
    ],
)
def test_a_volume_hides_what_is_below_its_mount_path(machine: Path, target: str, hidden: str | None) -> None:
    found = shadows.find([Cover("v", f"{machine}/{target}", None)], machine / "home/env/bin/python")
    assert (found and found.path) == (machine / hidden if hidden else None)


@pytest.mark.parametrize(
    ("covers", "hiding"),
    [
        ([("home", "disk")], None),
        ([("home", "other")], 0),
        ([("other", None), ("home", None)], 1),
        ([("disk", None), ("home/env", "disk/env")], None),
        ([("home/env", None), ("disk", "disk")], 0),
        ([("base", "base"), ("disk", "disk")], None),
    ],
)
def test_the_deepest_volume_decides_by_what_it_holds(
    machine: Path, covers: list[tuple[str, str | None]], hiding: int | None
) -> None:
    mounts = [Cover("v", f"{machine}/{target}", machine / source if source else None) for target, source in covers]
    found = shadows.find(mounts, machine / "home/env/bin/python")
    assert (found and found.cover) == hiding


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["python", "main.py"], True),
        (["python3.11"], True),
        (["/usr/bin/env", "python"], True),
        (["sh", "-c", "cd /app && exec python main.py"], True),
        (["train"], True),
        (["sh", "-c", "ls /opt/python-data"], False),
        (["/bin/echo", "pythonic"], False),
        (["nvidia-smi"], False),
        ([], False),
    ],
)
def test_python_is_needed_when_a_word_names_it_or_a_script_beside_it(
    machine: Path, argv: list[str], expected: bool
) -> None:
    assert shadows.needs_python(argv, machine / "home/env/bin/python") == expected


def test_mounts_are_led_to_the_hosts_folders_where_they_have_one() -> None:
    volumes = [{"name": "a", "hostPath": {"path": "/a"}}, {"name": "b", "emptyDir": {}}, {"name": "c", "nfs": {}}]
    container = {
        "volumeMounts": [
            {"name": "a", "mountPath": "/1", "subPath": "x"},
            {"name": "a", "mountPath": "/2", "subPathExpr": "$(X)"},
            {"name": "b", "mountPath": "/3"},
            {"name": "c", "mountPath": "/4"},
        ]
    }
    assert shadows.covers(container, volumes, {"c": Path("/c")}) == [
        Cover('volume "a"', "/1", Path("/a/x")),
        Cover('volume "a"', "/2", None),
        Cover('volume "b"', "/3", None),
        Cover('volume "c"', "/4", Path("/c")),
    ]
