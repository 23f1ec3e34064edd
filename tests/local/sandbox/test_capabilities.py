"""The capabilities that are found are those that pods can have; each missing one has a reason and a remedy."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from support.local.pod_harness import Place, Pods, at, odd_signals
from tfjob.local.sandbox import capabilities

NAMES = ("mount_namespace", "pid_namespace", "seccomp_notify", "loopback", "memory_cgroup", "cpu_cgroup")


def found_without(*missing: str) -> dict[str, capabilities.Capability]:
    return {name: capabilities.Capability(name, "refused" if name in missing else "") for name in NAMES}


@pytest.mark.parametrize(
    ("missing", "level"),
    [
        ((), "full"),
        (("memory_cgroup", "cpu_cgroup"), "full"),
        (("mount_namespace",), "addresses"),
        (("pid_namespace",), "addresses"),
        (("seccomp_notify",), "ports"),
        (("loopback",), "ports"),
        (("mount_namespace", "pid_namespace", "seccomp_notify"), "ports"),
    ],
)
def test_the_level_is_the_best_that_is_possible(missing: tuple[str, ...], level: str) -> None:
    found = found_without(*missing)
    assert capabilities.level(found) == level
    assert bool(capabilities.shortfall(found)) == (level != "full")


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="the tests do not run as root")
def test_as_root_this_machine_allows_everything() -> None:
    found = capabilities.probe()
    assert {one.title: one.problem for one in found.values() if not one.ok} == {}
    assert list(found) == list(NAMES)


@at([Place("full", "user")])
def test_as_a_user_namespaces_work_and_each_refusal_is_explained(pods: Pods) -> None:
    code = (
        "import json; from tfjob.local.sandbox import capabilities; found = capabilities.probe()\n"
        "print(json.dumps([capabilities.level(found), [[one.ok, one.problem, one.fix] for one in found.values()]]))"
    )
    level, rows = json.loads(pods.python(code).stdout)
    assert level == "full"
    for ok, problem, fix in rows:
        assert ok == (not problem)
        assert ok == (not fix)


@at([Place("full", "user")])
def test_without_user_namespaces_the_reduced_level_is_chosen_with_the_setting_to_change(pods: Pods) -> None:
    """In a user namespace that allows no further one, as a locked-down machine does."""
    code = (
        "import json, os; from tfjob.local.sandbox import capabilities, syscalls\n"
        "syscalls.enter_user_namespace(); open('/proc/sys/user/max_user_namespaces', 'w').write('0')\n"
        "found = capabilities.probe()\n"
        "one = found['mount_namespace']\n"
        "print(json.dumps([capabilities.level(found), capabilities.shortfall(found), one.fix]))"
    )
    done = pods.python(code)
    level, shortfall, fix = json.loads(done.stdout or f'["{done.stderr.decode()[-300:]}", "", ""]')
    assert level == "addresses"
    assert "No space left on device" in shortfall
    assert fix == "sudo sysctl user.max_user_namespaces=10000"


def test_the_signals_of_the_tool_do_not_change_what_is_found() -> None:
    usual = capabilities.Probing().problems()
    with odd_signals(signal.SIGCHLD, signal.SIGPIPE):
        assert capabilities.Probing().problems() == usual


def test_the_probe_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(capabilities, "_begun", [])  # what another test of this process began tries things elsewhere
    os.utime(tmp_path, (0, 0))
    capabilities.probe()
    assert tmp_path.stat().st_mtime_ns > 0, "this is where it tries things"
    assert list(tmp_path.iterdir()) == []
