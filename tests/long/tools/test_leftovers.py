"""The guard of CI finds what a run leaves behind, and clears up after a run that was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.running import ending, wait_until

pytestmark = pytest.mark.long

TOOL = Path(__file__).parents[3] / "tools" / "leftovers.py"
QUICK = f"import sys; sys.path.insert(0, {str(TOOL.parent)!r}); import leftovers; leftovers.GRACE = 0.5"


def test_a_run_that_leaves_nothing_passes_with_its_own_exit_code(tmp_path: Path) -> None:
    assert guard(tmp_path, "touch $TMPDIR/file; rm $TMPDIR/file").returncode == 0
    assert guard(tmp_path, "exit 7").returncode == 7
    assert list(tmp_path.iterdir()) == []


def test_an_orphan_and_a_file_are_named_and_removed(tmp_path: Path) -> None:
    """The orphan has its own session and says nothing of the run in its arguments."""
    done = guard(tmp_path, "touch $TMPDIR/forgotten; setsid sleep 54.321 & sleep 0.2")
    assert done.returncode == 1
    assert "sleep 54.321" in done.stdout
    assert "tmp/forgotten" in done.stdout
    assert b"54.321" not in every_command_line()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_run_left_is_swept(tmp_path: Path) -> None:
    with ending(start_guard(tmp_path, "echo begun; setsid sleep 65.432")):
        wait_until(lambda: b"sleep\x0065.432" in every_command_line(), 120)
    assert b"65.432" in every_command_line()
    sweep(tmp_path)
    assert b"65.432" not in every_command_line()
    assert list(tmp_path.iterdir()) == []


def test_a_killed_run_is_found_by_where_its_processes_stand_and_by_the_mark_of_its_pods(tmp_path: Path) -> None:
    """A workload has an environment of its own, and its supervisor may have been killed first."""
    orphans = (
        'echo \'{"uid": "pod-1"}\' > $TMPDIR/spec.json; '
        "(cd / && env -i TFJOB_POD=pod-1 setsid sleep 76.541 &); (cd $TMPDIR && env -i setsid sleep 76.542 &); "
        "(cd / && env -i TFJOB_POD=pod-11 setsid sleep 76.943 &); echo begun; sleep 60"
    )
    sleepers = [b"sleep\x0076." + number for number in (b"541", b"542", b"943")]
    with ending(start_guard(tmp_path, orphans)):
        wait_until(lambda: all(one in every_command_line() for one in sleepers), 120)
    sweep(tmp_path)
    assert b"76.54" not in every_command_line()
    others = processes_with(b"76.943")
    for pid in others:
        os.kill(pid, signal.SIGKILL)
    assert len(others) == 1, "another run's pod is left alone"
    assert list(tmp_path.iterdir()) == []


def test_a_run_ends_when_its_caller_is_killed(tmp_path: Path) -> None:
    """Nobody waits for it, and the next run would have to share the machine with it."""
    call = f"{QUICK}; sys.exit(leftovers.main(['guard', 'sh', '-c', 'echo begun; sleep 87.654']))"
    starting = subprocess.Popen(
        [sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])", sys.executable, "-c", call],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
    )
    with ending(starting) as caller:
        assert caller.stdout is not None
        assert caller.stdout.readline() == b"begun\n"
        caller.kill()
        caller.wait()
        assert b"leftovers: " in caller.stdout.read(), "the guard looks round before it ends, as always"
    assert b"87.654" not in every_command_line()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.root
def test_a_mount_in_the_scratch_folder_of_the_machine_is_named(tmp_path: Path) -> None:
    place = tmp_path / "elsewhere" / "mounted"
    place.mkdir(parents=True)
    try:
        done = guard(tmp_path, f"mount -t tmpfs none {place}")
    finally:
        subprocess.run(["umount", str(place)], check=True)
    assert done.returncode == 1
    assert f"left behind: mount: {place}\n" in done.stdout


@pytest.mark.root
def test_a_mount_of_another_run_or_of_somebody_at_work_is_not_ours(tmp_path: Path) -> None:
    other, busy = tmp_path / "tfjob-ci-other" / "mounted", tmp_path / "busy" / "mounted"
    other.mkdir(parents=True)
    busy.mkdir(parents=True)
    somebody = subprocess.Popen(["sh", "-c", "sleep 600", f"{busy.parent}/log"])
    try:
        done = guard(tmp_path, f"mount -t tmpfs none {other}; mount -t tmpfs none {busy}")
    finally:
        subprocess.run(["umount", str(other), str(busy)], check=True)
        somebody.kill()
        somebody.wait()
    assert (done.returncode, done.stdout) == (0, "leftovers: 0\n")


def start_guard(folder: Path, script: str) -> subprocess.Popen[bytes]:
    """A guarded run that goes on; the script must say "begun"."""
    running = subprocess.Popen(
        [sys.executable, str(TOOL), "guard", "sh", "-c", script],
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
    )
    assert running.stdout is not None
    with running.stdout as output:
        assert output.readline() == b"begun\n"
    return running


def sweep(folder: Path) -> None:
    subprocess.run([sys.executable, str(TOOL), "sweep"], env={**os.environ, "TMPDIR": str(folder)}, check=True)


def guard(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    call = f"{QUICK}; sys.exit(leftovers.main(['guard', 'bash', '-c', sys.argv[1]]))"
    return subprocess.run(
        [sys.executable, "-c", call, script],
        env={**os.environ, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
    )


def every_command_line() -> bytes:
    return b"".join(command_lines().values())


def processes_with(word: bytes) -> list[int]:
    return [pid for pid, line in command_lines().items() if word in line.split(b"\0")]


def command_lines() -> dict[int, bytes]:
    found = {}
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found[int(file.parent.name)] = file.read_bytes()
        except OSError:
            continue
    return found
