"""A job that runs while a test does something to it: its output as it comes, its processes by replica."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from installed import Installed

SHORTEST_PAUSE = 0.02
"""Seconds between two looks that cost nothing."""


class Running:
    """An attached `tfjob run`, or another command that goes on, in the background of a test."""

    def __init__(self, tool: Installed, home: Path, *words: str, command: str = "run", cwd: Path | None = None) -> None:
        self.tool = tool
        self.home = home
        self.words = words
        self.process = tool.start(home, command, *words, cwd=cwd)
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, text: str, timeout: float = 60, count: int = 1) -> None:
        """Waits until a line contains `text`, `count` times in all."""
        wait_until(
            lambda: sum(text in line for line in self.lines) >= count or self.process.poll() is not None,
            timeout,
            lambda: f"no {text!r} in:\n" + "\n".join(self.lines),
        )
        if self.process.poll() is not None:
            self._reader.join(5)  # its last lines may still be in the pipe
        assert sum(text in line for line in self.lines) >= count, "\n".join(self.lines)

    def finish(self, timeout: float = 90) -> int:
        """Waits for the end and returns the exit code."""
        try:
            code = self.process.wait(timeout)
        except Exception:
            print("\n".join(self.lines))
            self.process.kill()
            raise
        self._reader.join(5)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def lines_of(self, replica: str) -> list[str]:
        """What one replica said."""
        return [line.partition(" | ")[2] for line in self.lines if line.split(" | ")[0].strip() == replica]

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))


def wait_until(holds: Callable[[], bool], timeout: float, otherwise: Callable[[], str] = lambda: "not in time") -> None:
    """Waits until something holds; fails with the words of `otherwise`."""
    deadline = time.monotonic() + timeout
    while True:
        begun = time.monotonic()
        if holds():
            return
        now = time.monotonic()
        assert now < deadline, otherwise()
        # A look may be a process of its own, which takes the cores away from what is waited for.
        time.sleep(max(SHORTEST_PAUSE, now - begun))


def status(tool: Installed, home: Path, job: str) -> dict[str, object]:
    """A job as `status -o json` shows it."""
    shown = tool.tfjob(home, "status", job, "-o", "json")
    assert shown.returncode == 0, shown.stderr
    found: dict[str, object] = json.loads(shown.stdout)
    return found


def pod_folders(home: Path, pod: str) -> list[Path]:
    """The folders of all pods of a name, the newest last."""
    found = home.glob(f"runs/*/*/pods/{pod}.*")
    return sorted(found, key=lambda folder: folder.stat().st_mtime_ns)


def workload_pid(home: Path, pod: str, timeout: float = 60) -> int:
    """The process that is the newest pod of that name, as the host numbers it."""
    seen = [0]

    def is_found() -> bool:
        folders = pod_folders(home, pod)
        try:
            pids = json.loads((folders[-1] / "status.json").read_text())["pids"]
        except (IndexError, FileNotFoundError):
            return False
        seen[0] = int(pids.get("tensorflow", 0))
        return seen[0] > 0

    wait_until(is_found, timeout, lambda: f"{pod} has no process")
    return seen[0]


def is_alive(pid: int) -> bool:
    """Whether a process exists and has not ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def processes_of(home: Path) -> list[int]:
    """Every process that runs for a state folder: replicas, supervisors and drivers."""
    mark, found = str(home).encode(), []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            words = Path(f"/proc/{entry}/cmdline").read_bytes() + Path(f"/proc/{entry}/environ").read_bytes()
        except OSError:
            continue
        if mark in words and is_alive(int(entry)):
            found.append(int(entry))
    return found
