"""The guard of CI finds what a run leaves behind, and clears up after a run that was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

TOOL = Path(__file__).parents[2] / "tools" / "leftovers.py"
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
    running = subprocess.Popen(
        [sys.executable, str(TOOL), "guard", "sh", "-c", "echo begun; setsid sleep 65.432"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
    )
    assert running.stdout is not None
    assert running.stdout.readline() == b"begun\n"
    time.sleep(0.2)
    running.send_signal(signal.SIGKILL)
    running.wait()
    assert b"65.432" in every_command_line()
    subprocess.run([sys.executable, str(TOOL), "sweep"], env={**os.environ, "TMPDIR": str(tmp_path)}, check=True)
    assert b"65.432" not in every_command_line()
    assert list(tmp_path.iterdir()) == []
    running.stdout.close()


def guard(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    call = f"{QUICK}; sys.exit(leftovers.main(['guard', 'bash', '-c', sys.argv[1]]))"
    return subprocess.run(
        [sys.executable, "-c", call, script],
        env={**os.environ, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
    )


def every_command_line() -> bytes:
    found = b""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += file.read_bytes()
        except OSError:
            continue
    return found
