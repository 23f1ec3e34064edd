"""The life of a fork server: who starts it, what it refuses, and that it never stays behind."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from support.golden import check_golden
from support.installed import Installed
from support.local.pod_harness import Place, Pods, at
from support.local.warm_pods import WarmPods, gone, until_ready, warm_pods, why_not
from support.running import ending, wait_until
from tfjob.durations import Durations
from tfjob.local.sandbox import processes
from tfjob.local.warm.pool import NotWarm

GOLDEN = Path(__file__).parents[2] / "support" / "data" / "local" / "golden"
HERE = at([Place("full", "root" if os.geteuid() == 0 else "user")])


def check_reason(warm: WarmPods, name: str, reason: str) -> None:
    """Compare why a start is not warm with golden/not-warm-NAME.txt."""
    for path, shown in ((warm.packages, "PACKAGES"), (warm.python.parents[1], "VENV")):
        reason = reason.replace(str(path), shown)
    reason = re.sub(r": \[Errno \d+\] .*", ": ERROR", reason)
    check_golden(GOLDEN / f"not-warm-{name}.txt", f"{reason}\n")


@pytest.fixture
def warm(pods: Pods) -> Iterator[WarmPods]:
    with warm_pods(pods) as made:
        yield made


@HERE
def test_runs_share_one_which_ends_when_nobody_has_used_it_for_a_while(warm: WarmPods) -> None:
    first, second = warm.server(idle=0.5), warm.server(idle=0.5)
    until_ready(first)
    until_ready(second)
    (state,) = warm.states()
    assert (state.python, state.tensorflow, state.users) == (str(warm.python), "stand-in", 2)
    first.close()
    time.sleep(1.5)
    assert not gone(state.pid, 0)
    second.close()
    assert gone(state.pid)
    assert warm.states() == []


@HERE
def test_it_dies_with_the_last_tool_that_was_killed_while_it_used_it(warm: WarmPods) -> None:
    """An idle time is for those that ended in order."""
    child = os.fork()
    if child == 0:
        try:
            until_ready(warm.server())
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL, "it never had a fork server"
    for state in warm.states():
        assert gone(state.pid)
    assert warm.states() == []


MANIFEST = """
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: sleeper}
spec:
  tfReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          terminationGracePeriodSeconds: 1
          containers: [{name: tensorflow, image: "standin:1", command: [python, sleeps.py]}]
"""


@HERE
def test_a_run_that_is_killed_leaves_neither_replicas_nor_a_fork_server(
    warm: WarmPods, tool: Installed, tmp_path: Path
) -> None:
    (tmp_path / "job.yaml").write_text(MANIFEST)
    (tmp_path / "sleeps.py").write_text("import time; print('up'); time.sleep(600)")
    command = ("run", str(tmp_path / "job.yaml"), "--warm", "--python", str(warm.python))
    with ending(tool.start(warm.home.path, *command)) as run:
        assert run.stdout is not None
        up = 0
        while up < 2:
            line = run.stdout.readline()
            assert line, "it ended by itself"
            up += " | up" in line
    pods = warm.home.path.glob("runs/default/*/pods/*/spec.json")
    uids = [json.loads(path.read_text())["uid"] for path in pods]
    deadline = time.monotonic() + 60
    while left := [pid for uid in uids for pid in processes.marked(uid)] or warm.states():
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
    assert len(uids) == 2


@HERE
def test_it_ends_with_its_folder(warm: WarmPods) -> None:
    server = warm.server()
    until_ready(server)
    (state,) = warm.states()

    def is_removed() -> bool:
        shutil.rmtree(warm.home.path, ignore_errors=True)  # which may write what it counts meanwhile
        return not warm.home.path.exists()

    wait_until(is_removed, 60)
    assert gone(state.pid)
    server.close()


WAITS = """
import os, time
print('up')
while not os.path.exists('go'):
    time.sleep(0.05)
raise SystemExit(7)
"""


@HERE
def test_a_pod_goes_on_without_the_fork_server_that_it_came_from(warm: WarmPods, tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text(WAITS)
    run = warm.launch("waits.py", cwd=tmp_path)
    run.until_logged("up")
    warm.end()
    (tmp_path / "go").touch()
    assert run.ended()["exitCode"] == 7


@HERE
def test_another_one_is_started_when_something_that_was_imported_has_changed(warm: WarmPods) -> None:
    first = warm.server()
    until_ready(first)
    (old,) = warm.states()
    warm.have("__version__ = 'newer'")
    second = warm.server()
    until_ready(second)
    assert gone(old.pid)
    assert [state.tensorflow for state in warm.states()] == ["newer"]
    first.close()
    second.close()


@HERE
def test_one_that_a_run_still_uses_forks_no_old_import(warm: WarmPods, tmp_path: Path) -> None:
    """TensorFlow may be installed anew while a run goes on; a look within the last second counts."""
    server = warm.server()
    until_ready(server)
    (old,) = warm.states()
    warm.have("__version__ = 'newer'")
    time.sleep(1.1)
    with pytest.raises(NotWarm) as refused:
        server.launch(tmp_path, b"{}")
    check_reason(warm, "changed", str(refused.value))
    until_ready(server)
    assert gone(old.pid)
    assert [state.tensorflow for state in warm.states()] == ["newer"]
    server.close()


@HERE
def test_one_that_hangs_keeps_no_run_waiting(warm: WarmPods) -> None:
    """It was up once, so it is not still coming."""
    server = warm.server()
    until_ready(server)
    (state,) = warm.states()
    os.kill(state.pid, signal.SIGSTOP)
    try:
        reason = why_not(warm.server(durations=Durations(fork_server_answer=timedelta(seconds=0.5))))
        assert f"kill -9 {state.pid}" in reason
        check_reason(warm, "hangs", reason.replace(str(state.pid), "PID"))
    finally:
        os.kill(state.pid, signal.SIGKILL)
    assert gone(state.pid)
    server.close()


SLOW_DISK = """
import os, time
stat = os.stat
def slow(path, *rest, **named):
    time.sleep(0.02 * str(path).endswith(('.py', '.so')))
    return stat(path, *rest, **named)
os.stat = slow
"""


@HERE
def test_one_that_looks_at_its_files_for_long_does_not_hang(warm: WarmPods) -> None:
    """One that comes while it looks for another one waits, and does not take it for dead."""
    warm.have(SLOW_DISK)
    servers = [warm.server() for _ in range(3)]
    until_ready(servers[0], 60)
    (state,) = warm.states()
    waiting = servers[1:]
    deadline = time.monotonic() + 60
    while waiting := [server for server in waiting if not server.ready()]:
        assert time.monotonic() < deadline, "it does not say that it is fit"
    assert [one.pid for one in warm.states()] == [state.pid]
    for server in servers:
        server.close()


DIRTY_AFTER_THE_FIRST = """
import os, threading, time
server, forks = os.getpid(), []
def after():
    forks.append(1)
    if os.getpid() == server and len(forks) == 2:
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
os.register_at_fork(after_in_parent=after)
"""


@HERE
def test_one_that_has_a_thread_by_now_forks_no_more(warm: WarmPods, tmp_path: Path) -> None:
    """What it does before each fork is not only what it does at its start."""
    warm.have(DIRTY_AFTER_THE_FIRST)
    (tmp_path / "train.py").write_text("print('trained')")
    server = warm.server()
    until_ready(server)
    (state,) = warm.states()
    assert warm.launch("train.py", cwd=tmp_path).ended()["exitCode"] == 0
    with pytest.raises(NotWarm) as refused:
        server.launch(tmp_path, b"{}")
    check_reason(warm, "thread-by-now", str(refused.value))
    assert gone(state.pid)
    server.close()


@HERE
@pytest.mark.parametrize(
    ("name", "text", "keyword"),
    [
        ("no-import", "raise ImportError('no wheel')", "no wheel"),
        (
            "thread",
            "import threading, time\nthreading.Thread(target=time.sleep, args=(9,), daemon=True).start()",
            "threads running (1)",
        ),
        ("open-file", "keep = open('/dev/zero')", "open"),
        ("aborts", "import os; os.abort()", "exited"),
        ("raises", "1 / 0", "ZeroDivisionError"),
    ],
)
def test_an_import_that_makes_forks_unsafe_is_refused(warm: WarmPods, name: str, text: str, keyword: str) -> None:
    warm.have(text)
    reason = why_not(warm.server())
    assert keyword in reason
    check_reason(warm, name, reason)
    assert warm.states() == []


@HERE
def test_one_that_was_ended_is_started_anew(warm: WarmPods, tmp_path: Path) -> None:
    """The start that finds it gone is told why it is not warm; the next one is."""
    server = warm.server()
    until_ready(server)
    (first,) = warm.states()
    warm.end()
    assert gone(first.pid)
    with pytest.raises(NotWarm) as refused:
        server.launch(tmp_path, b"{}")
    check_reason(warm, "gone", str(refused.value).partition(": ")[0])
    until_ready(server)
    (second,) = warm.states()
    assert second.pid != first.pid
    server.close()


@HERE
def test_where_nothing_can_be_written_there_is_none(warm: WarmPods) -> None:
    shutil.rmtree(warm.home.path)
    warm.home.path.write_text("not a folder")
    check_reason(warm, "not-written", why_not(warm.server()))
    warm.home.path.unlink()


@HERE
def test_a_wrapper_is_no_interpreter(warm: WarmPods) -> None:
    """What `python` is may be a shell script that chooses one."""
    real = warm.python.with_name("real")
    warm.python.rename(real)
    warm.python.write_text(f'#!/bin/sh\nexec {real} "$@"\n')
    warm.python.chmod(0o755)
    reason = why_not(warm.server())
    assert str(warm.python) in reason
    check_reason(warm, "wrapper", reason)


@HERE
def test_a_program_with_a_runtime_is_never_forked(warm: WarmPods) -> None:
    """The check is made before each fork, not only at the start."""
    (warm.packages / "tensorflow.py").unlink()
    package = warm.packages / "tensorflow" / "python" / "eager"
    package.mkdir(parents=True)
    for folder in (package, package.parent, package.parent.parent):
        (folder / "__init__.py").touch()
    (package.parent.parent / "__init__.py").write_text("import tensorflow.python.eager.context")
    (package / "context.py").write_text("class _context: _initialized = True")
    check_reason(warm, "runtime", why_not(warm.server()))


@HERE
def test_its_processes_carry_the_mark_of_their_pod(warm: WarmPods, tmp_path: Path) -> None:
    """As every process of a pod does, so that none is lost when its supervisor is killed."""
    (tmp_path / "sleeps.py").write_text("import os, time\nos.fork()\nprint('up')\ntime.sleep(60)")
    run = warm.launch("sleeps.py", cwd=tmp_path)
    run.until(lambda: run.log().count("up") == 2)
    assert len(processes.marked(run.uid)) == 2
    run.kill()
