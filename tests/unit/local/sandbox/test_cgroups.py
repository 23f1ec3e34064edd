"""The files and counters of control groups, of either version."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.local.pod_harness import groups_go, groups_of
from tfjob.local.sandbox import cgroups

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="making a control group needs root")


@pytest.mark.root
@needs_root
def test_the_sweep_removes_the_groups_of_one_pod_only() -> None:
    dead, live = (f"test-{os.getpid()}-{name}" for name in ("dead", "live"))
    names = [cgroups.group_name(uid, "main", 0) for uid in (dead, live)]
    groups = [cgroups.create(name, 64 << 20, 0.5) for name in names]
    try:
        cgroups.sweep(dead)
        assert (groups_of(dead), groups_of(live)) == (set(), {names[1]})
    finally:
        for group in groups:
            group.remove()
    assert groups_go(live)


@pytest.mark.parametrize(
    ("version", "controller", "value", "files"),
    [
        (1, "memory", "1048576", {"memory.limit_in_bytes": "1048576", "memory.memsw.limit_in_bytes": "1048576"}),
        (2, "memory", "1048576", {"memory.max": "1048576", "memory.swap.max": "0", "memory.oom.group": "1"}),
        (1, "cpu", "1.5", {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "150000"}),
        (2, "cpu", "0.25", {"cpu.max": "25000 100000"}),
        (2, "cpu", "0.001", {"cpu.max": "1000 100000"}),
    ],
)
def test_the_files_of_each_version(version: int, controller: str, value: str, files: dict[str, str]) -> None:
    assert {file: text for file, text, _ in cgroups._settings(version, controller, value)} == files


@pytest.mark.parametrize(
    ("files", "kills", "peak"),
    [
        ({"memory.events": "low 0\noom 3\noom_kill 2\n", "memory.peak": "4096\n"}, 2, 4096),
        ({"memory.oom_control": "under_oom 0\noom_kill 1\n", "memory.max_usage_in_bytes": "8192\n"}, 1, 8192),
        ({}, 0, 0),
    ],
)
def test_the_counters_of_each_version(tmp_path: Path, files: dict[str, str], kills: int, peak: int) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    group = cgroups.Cgroup(str(tmp_path), None, [])
    assert (group.oom_kills(), group.peak()) == (kills, peak)
