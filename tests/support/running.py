"""A job that runs while a test does something to it: its output as it comes, its processes by replica."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import Popen
from typing import AnyStr, Self

from support.installed import Installed

SHORTEST_PAUSE = 0.02
"""Seconds between two looks that cost nothing."""
READING_SECONDS = 30.0
"""How long the last lines of a command that has ended may take to arrive."""


class Running:
    """An attached `tfjob run`, or another long command, in the background of a test.

    As a context manager it leaves no process behind, whether the test passes or fails.
    """

    def __init__(self, tool: Installed, home: Path, *words: str, command: str = "run", cwd: Path | None = None) -> None:
        self.tool = tool
        self.home = home
        self.words = words
        self.process = tool.start(home, command, *words, cwd=cwd)
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close()
        if kind is not None:
            print("\n".join(self.lines))
            end_processes(self.home)

    def wait_for(self, text: str, timeout: float = 180, count: int = 1) -> None:
        """Wait until `count` lines contain `text`."""
        self.wait_for_lines(lambda line: text in line, repr(text), timeout, count)

    def wait_for_step(self, step: int, replica: str = "", word: str = "step", timeout: float = 180) -> None:
        """Wait until a line of `replica`, or of any, says `step N/` with an N of at least `step`."""
        pattern = re.compile(rf"^{replica}.*\b{word} (\d+)/")
        self.wait_for_lines(
            lambda line: (found := pattern.match(line)) is not None and int(found[1]) >= step,
            f"{word} {step} or later of {replica or 'any replica'}",
            timeout,
        )

    def wait_for_lines(self, matches: Callable[[str], bool], what: str, timeout: float, count: int = 1) -> None:
        """Wait until `count` lines match; fail if the command ends without them."""

        def are_there() -> bool:
            return sum(map(matches, self.lines)) >= count

        def otherwise() -> str:
            return f"no {what} in:\n" + "\n".join(self.lines)

        wait_until(lambda: are_there() or self.process.poll() is not None, timeout, otherwise)
        if self.process.poll() is not None:
            self._reader.join(READING_SECONDS)  # its last lines may still be in the pipe
        assert are_there(), otherwise()

    def finish(self, timeout: float = 180) -> int:
        """Wait for the end and return the exit code."""
        code = self.process.wait(timeout)
        self.close()
        return code

    def close(self) -> None:
        """Kill the command if it still runs, and read the rest of its output."""
        self.process.kill()
        self.process.wait()
        self._reader.join(READING_SECONDS)
        assert self.process.stdout is not None
        if not self._reader.is_alive():  # else a process that the command started still holds the other end
            self.process.stdout.close()

    def lines_of(self, replica: str) -> list[str]:
        """What one replica said."""
        return [line.partition(" | ")[2] for line in self.lines if line.split(" | ")[0].strip() == replica]

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))


@contextmanager
def ending(process: Popen[AnyStr]) -> Iterator[Popen[AnyStr]]:
    """A process that does not outlive the block, nor do its pipes, whether the test passes or fails."""
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def wait_until(holds: Callable[[], bool], timeout: float, otherwise: Callable[[], str] = lambda: "not in time") -> None:
    """Waits until something holds; fails with the words of `otherwise`."""
    deadline = time.monotonic() + timeout
    while True:
        begun = time.monotonic()
        if holds():
            return
        now = time.monotonic()
        assert now < deadline, otherwise()
        # A check may start a process, which takes CPU time from the program that the test waits for.
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


def workload_pid(home: Path, pod: str, timeout: float = 60, container: str = "tensorflow") -> int:
    """The process of a container of the newest pod of that name, or pattern, as the host numbers it."""
    seen = [0]

    def is_found() -> bool:
        folders = pod_folders(home, pod)
        try:
            pids = json.loads((folders[-1] / "status.json").read_text())["pids"]
        except (IndexError, FileNotFoundError):
            return False
        seen[0] = int(pids.get(container, 0))
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


def command_of(pid: int) -> bytes:
    """Return the command line of a process, with NUL between arguments; nothing if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


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


def end_processes(home: Path) -> None:
    """Kill every process that still runs for a state folder, also those that the others start meanwhile."""

    def kill_all() -> bool:
        found = processes_of(home)
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not found

    wait_until(kill_all, 60, lambda: f"{processes_of(home)} still run")
