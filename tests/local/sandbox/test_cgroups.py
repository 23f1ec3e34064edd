"""Limits by control group: enforced, counted, removed; and what happens where we may not make one."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from support.local.pod_harness import PYTHON, Place, Pods, at, groups_go
from tfjob.local.sandbox import cgroups

AS_ROOT = [Place(level, "root") for level in ("full", "addresses", "ports")]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="making a control group needs root")


@at(AS_ROOT)
def test_the_kernel_kills_a_container_over_its_memory_limit(pods: Pods) -> None:
    code = "b = b'x' * (300 << 20)"
    pod = pods.launch(pods.container(PYTHON, "-c", code, memory=64 << 20, limits="cgroup"))
    ended = pod.ended()
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")
    assert pod.status()["warnings"] == []
    assert 32 << 20 < pod.status()["peakMemory"]["main"] <= 80 << 20
    assert groups_go(pod.uid)


@at([Place("full", "root")])
def test_a_child_killed_for_memory_while_the_main_process_ends_well_is_no_oom_kill(pods: Pods) -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', \"b = b'x' * (300 << 20)\"])"
    pod = pods.launch(pods.container(PYTHON, "-c", code, memory=64 << 20, limits="cgroup"))
    assert pod.ended()["reason"] == "Completed"


@at([Place("full", "root")])
def test_a_cpu_limit_slows_the_container_down(pods: Pods) -> None:
    code = "import time; end = time.monotonic() + 1\nwhile time.monotonic() < end: pass\nprint(time.process_time())"
    pod = pods.launch(pods.container(PYTHON, "-I", "-S", "-c", code, cpu=0.2, limits="cgroup"))
    pod.ended()
    assert float(pod.log()) < 0.6
    assert groups_go(pod.uid)


@at([Place("full", "user"), Place("addresses", "user")])
@pytest.mark.skipif(os.geteuid() != 0, reason="this user may be allowed to make control groups")
def test_where_no_group_can_be_made_the_limit_is_polled_and_the_status_says_so(pods: Pods) -> None:
    code = "b = b'x' * (200 << 20); import time; time.sleep(600)"
    pod = pods.launch(pods.container(PYTHON, "-c", code, memory=64 << 20, cpu=1.0, limits="cgroup"))
    assert pod.ended()["reason"] == "OOMKilled"
    memory, cpu = pod.status()["warnings"]
    assert memory.startswith("main: cannot create a memory cgroup: ")
    assert cpu.startswith("main: cannot create a cpu cgroup: ")


@pytest.mark.root
@needs_root
def test_a_group_is_removed_once_it_is_empty_and_not_before() -> None:
    uid = f"test-busy-{os.getpid()}"
    group = cgroups.create(cgroups.group_name(uid, "main", 0), 64 << 20, 0.5)
    assert group.problems == []
    child = os.fork()
    if child == 0:
        for path in group.join_files:
            Path(path).write_text("0")
        time.sleep(600)
        os._exit(0)
    try:
        deadline = time.monotonic() + 60
        while str(child) not in Path(group.join_files[0]).read_text().split():
            assert time.monotonic() < deadline
        assert group.remove(patience=0.05) is False
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
    assert group.remove() is True
    assert groups_go(uid)
