"""The process table, from /proc and from `ps`, tells the same story."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from tfjob.local.sandbox import processes

UID = f"uid-of-test-{os.getpid()}"


@pytest.fixture(params=["/proc", "ps"])
def source(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(processes, "_HAS_PROC", request.param == "/proc")
    return str(request.param)


@pytest.fixture
def family() -> Iterator[subprocess.Popen[bytes]]:
    """A marked shell with a marked child."""
    env = {"PATH": "/bin", processes.MARK: UID}
    process = subprocess.Popen(["sh", "-c", "sleep 600 & echo; wait"], env=env, stdout=subprocess.PIPE)
    assert process.stdout
    process.stdout.readline()
    yield process
    processes.sweep(UID)
    process.kill()
    process.wait()
    process.stdout.close()


def test_descendants_with_their_memory(source: str, family: subprocess.Popen[bytes]) -> None:
    found = processes.descendants(os.getpid())
    assert family.pid in found
    children = processes.descendants(family.pid)
    assert len(children) == 1
    assert 0 < found[family.pid] < 100 << 20


def test_marked_processes_are_found_and_swept(source: str, family: subprocess.Popen[bytes]) -> None:
    assert len(processes.marked(UID)) == 2
    assert processes.marked(UID[:-1]) == []
    processes.sweep(UID)
    assert family.wait(60) == -9


def test_a_start_time_tells_a_process_from_its_successor(family: subprocess.Popen[bytes]) -> None:
    mine = processes.start_time(os.getpid())
    theirs = processes.start_time(family.pid)
    assert mine is not None
    assert theirs is not None
    assert mine < theirs
    assert processes.start_time(2**22 + 1) is None
