"""A driver of a tree: a run whose children are TFJobs, with the pods of all of them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from support.running import command_of, end_processes, processes_of, wait_until, workload_pid
from support.toy_driver import toy_kinds
from support.toys import Batch, Server, ToyStatus
from tfjob import kinds
from tfjob.api.objects import ObjectMeta, Pod
from tfjob.local.jobs.runs import ensure_driven, job_of
from tfjob.local.run import driver_lock
from tfjob.local.run.driver import Driver
from tfjob.local.run.driver_lock import is_driven, needs_driver, start_background
from tfjob.local.run.lifetime import Started, remove_run, start_run
from tfjob.local.state.home import Home
from tfjob.local.state.options import Options
from tfjob.local.state.store import Run, Store, marked_for_deletion, open_state

pytestmark = pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")
"""A background driver belongs to no process, so nothing waits for it."""

TESTS = Path(__file__).parents[2]
ATTACHED = """
import asyncio, sys
from pathlib import Path
from support.toy_driver import toy_kinds
from tfjob.local.run.driver import Driver
from tfjob.local.state.home import Home
from tfjob.local.state.store import open_store

home = Home(Path(sys.argv[1]))
store = open_store(home.database)
asyncio.run(Driver(home, store, store.run(sys.argv[2]), toy_kinds(), attached=True, lock=int(sys.argv[3])).drive())
"""


@pytest.fixture(autouse=True)
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drivers and commands know the toy kinds."""
    monkeypatch.setattr(driver_lock, "PROGRAM", "support.toy_driver")
    monkeypatch.setattr(kinds, "machine_kinds", toy_kinds)
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    monkeypatch.setenv("TFJOB_TEST_DURATIONS", '{"settle_gang": 0, "settle_tasks": 0, "restart_waits": [0]}')


@pytest.fixture
def state(home: Path) -> Iterator[tuple[Home, Store]]:
    with open_state(Home(home), write=True) as opened:
        yield opened
    end_processes(home)
    for child in psutil.Process().children():
        if child.status() == psutil.STATUS_ZOMBIE:
            child.wait()  # a command would have ended before them


def container(gate: Path) -> dict[str, object]:
    """A container that ends when the file exists."""
    return {"name": "tensorflow", "image": "x", "command": ["sh", "-c", f"while [ ! -e {gate} ]; do sleep 0.05; done"]}


def start_batch(home: Home, store: Store, gate: Path, *, attached: bool = False) -> Started:
    spec = {
        "count": 3,
        "parallel": 2,
        "template": {"containers": [container(gate)], "terminationGracePeriodSeconds": 1},
    }
    batch = Batch(kind="Batch", metadata=ObjectMeta(name="toy", namespace="default"), spec=spec)
    return start_run(home, store, batch, b"", options(gate.parent), attached=attached)


def options(project: Path) -> Options:
    return Options(project=str(project), level="ports", limits="off", warm=False, environ={"PATH": os.environ["PATH"]})


def again(store: Store, run: Run) -> Run:
    found = store.run(run.uid)
    assert found is not None
    return found


def states(store: Store) -> dict[str, str]:
    return {run.name: job_of(run).status.state for run in jobs(store, everything=False)}


def jobs(store: Store, *, everything: bool = True) -> list[Run]:
    return [run for run in store.runs(everything=everything) if run.key.kind == "TFJob"]


def kill_driver(home: Home) -> None:
    words = {pid: command_of(pid) for pid in processes_of(home.path)}
    (driver,) = (pid for pid, command in words.items() if b"support.toy_driver" in command)
    os.kill(driver, signal.SIGKILL)
    wait_until(lambda: driver not in processes_of(home.path), 60)


def test_a_tree_runs_to_its_end(state: tuple[Home, Store], tmp_path: Path) -> None:
    home, store = state
    (tmp_path / "gate").touch()
    started = start_batch(home, store, tmp_path / "gate")
    asyncio.run(Driver(home, store, started.run, toy_kinds(), attached=False, lock=started.lock).drive())
    root = again(store, started.run)
    assert root.decode(Batch).status == ToyStatus(state="Succeeded", message="3/3")
    assert states(store) == dict.fromkeys(("toy-0", "toy-1", "toy-2"), "Succeeded")
    assert not needs_driver(root)
    for run in store.tree(root.uid)[1:]:
        assert (run.owner, run.root, needs_driver(run)) == (root.uid, root.uid, False)
        assert (run.folder / "pods").is_dir()
        assert [event.reason for event in store.events(run.uid)][-1] == "TFJobSucceeded"
    remove_run(store, root)
    assert store.runs() == []
    assert list(home.path.glob("runs/*/*")) == []


def test_a_tree_whose_driver_was_killed_is_continued(state: tuple[Home, Store], tmp_path: Path) -> None:
    home, store = state
    started = start_batch(home, store, tmp_path / "gate")
    start_background(home, started.run, started.lock)
    pids = {name: workload_pid(home.path, f"{name}-worker-0") for name in ("toy-0", "toy-1")}
    kill_driver(home)

    child = next(run for run in jobs(store) if run.name == "toy-1")
    assert ensure_driven(home, store, child), "the next command looks at one of the jobs"
    wait_until(lambda: is_driven(again(store, started.run)), 60)
    assert not ensure_driven(home, store, again(store, started.run)), "one driver has the whole tree"
    assert pids == {name: workload_pid(home.path, f"{name}-worker-0") for name in pids}, "pods kept running"
    (tmp_path / "gate").touch()
    wait_until(lambda: not needs_driver(again(store, started.run)), 60)

    assert states(store) == dict.fromkeys(("toy-0", "toy-1", "toy-2"), "Succeeded")
    assert again(store, started.run).decode(Batch).status.state == "Succeeded"
    wait_until(lambda: processes_of(home.path) == [], 60)


def test_an_attached_tree_leaves_no_process_when_it_is_killed(state: tuple[Home, Store], tmp_path: Path) -> None:
    home, store = state
    started = start_batch(home, store, tmp_path / "gate", attached=True)
    command = [sys.executable, "-c", ATTACHED, str(home.path), started.run.uid, str(started.lock)]
    driver = subprocess.Popen(command, pass_fds=[started.lock])
    os.close(started.lock)
    for name in ("toy-0", "toy-1"):
        workload_pid(home.path, f"{name}-worker-0")
    driver.kill()
    driver.wait()

    ensure_driven(home, store, jobs(store)[0])
    wait_until(lambda: not needs_driver(again(store, started.run)), 60)
    wait_until(lambda: processes_of(home.path) == [], 60)
    assert store.runs(everything=False) == [], "a kind that cannot be suspended is deleted"
    assert len(jobs(store)) == 2, "its record stays"


def test_a_deleted_tree_ends_from_the_leaves(state: tuple[Home, Store], tmp_path: Path) -> None:
    home, store = state
    started = start_batch(home, store, tmp_path / "gate")
    start_background(home, started.run, started.lock)
    for name in ("toy-0", "toy-1"):
        workload_pid(home.path, f"{name}-worker-0")
    store.update(started.run.uid, marked_for_deletion)
    wait_until(lambda: not again(store, started.run).current, 60)
    assert store.runs(everything=False) == []
    assert store.pods() == []
    wait_until(lambda: processes_of(home.path) == [], 60)


def test_a_server_keeps_its_pod_up_until_it_is_deleted(state: tuple[Home, Store], tmp_path: Path) -> None:
    home, store = state
    template = {"containers": [container(tmp_path / "gate")], "restartPolicy": "Never"}
    server = Server(kind="Server", metadata=ObjectMeta(name="toy", namespace="default"), spec={"template": template})
    started = start_run(home, store, server, b"", options(tmp_path), attached=False)
    start_background(home, started.run, started.lock)
    os.kill(workload_pid(home.path, "toy-0"), signal.SIGKILL)
    workload_pid(home.path, "toy-1")
    assert [pod.metadata.name for pod in store.children(Pod, started.run.uid)] == ["toy-1"]
    store.update(started.run.uid, marked_for_deletion)
    wait_until(lambda: not needs_driver(again(store, started.run)), 60)
    wait_until(lambda: processes_of(home.path) == [], 60)
