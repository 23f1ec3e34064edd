"""Ctrl-C on a real terminal, prompts, signals, and the end of the tool by kill -9."""

from __future__ import annotations

import fcntl
import json
import os
import re
import select
import signal
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.command_line import MANIFESTS, CommandLine
from support.running import processes_of, wait_until

CTRL_C, CTRL_S = "\x03", "\x13"


class Terminal:
    """A command on a new terminal, with a simulated user."""

    def __init__(self, cli: CommandLine, *words: str) -> None:
        self.screen = ""
        self._ours, theirs = os.openpty()
        self.process = subprocess.Popen(
            [*cli.tool.command, *words],
            env={**cli.environment(), "TERM": "xterm"},
            cwd=MANIFESTS,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(theirs)

    def wait_for(self, text: str, timeout: float = 120) -> None:
        """Read until the screen shows `text`."""
        deadline = time.monotonic() + timeout
        while text not in self.screen:
            assert time.monotonic() < deadline, f"no {text!r} in {self.screen!r}"
            assert self._read(), f"no {text!r} in {self.screen!r}"

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._ours, keys.encode())

    def end(self, timeout: float = 120) -> int:
        """Read to the end and return the exit code."""
        while self._read():
            pass
        return self.process.wait(timeout)

    def close(self) -> None:
        """Kill the command if it is still running, and close the terminal."""
        self.process.kill()
        self.process.wait()
        os.close(self._ours)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._ours], [], [], 120)
        try:
            data = os.read(self._ours, 65536) if ready else b""
        except OSError:  # EIO: the last process that had it open is gone
            data = b""
        self.screen += data.decode(errors="replace")
        return bool(data)


Open = Callable[..., Terminal]


@pytest.fixture
def on_terminal() -> Iterator[Open]:
    """Starts commands on terminals, and ends all of them."""
    with ExitStack() as stack:

        def start(cli: CommandLine, *words: str) -> Terminal:
            terminal = Terminal(cli, *words)
            stack.callback(terminal.close)
            return terminal

        yield start


@pytest.fixture
def sleeper(cli: CommandLine) -> Iterator[CommandLine]:
    """A fresh state folder in which the job sleeper runs in the background."""
    cli("submit", "sleeper.yaml", "--no-limits")
    yield cli
    cli.run("delete", "sleeper")


def test_ctrl_c_stops_in_order_and_the_job_can_be_resumed(on_terminal: Open, cli: CommandLine) -> None:
    terminal = on_terminal(cli, "run", "sleeper.yaml", "--no-limits")
    terminal.wait_for("up")
    terminal.type(CTRL_C)
    assert terminal.end() == 130
    assert "| \x1b[0mstopped" in terminal.screen.replace("|\x1b[0m ", "| \x1b[0m"), "colours on a terminal"
    told = notices(terminal.screen, "Ctrl-C again", "tfjob resume sleeper")
    cli.golden("run-interrupted", re.sub(r"\d+ s left", "N s left", told), exact=True)
    assert processes_of(cli.home) == []
    (job,) = json.loads(cli("ps", "-o", "json"))["items"]
    assert (job["state"], job["reason"]) == ("Suspended", "Stopped")
    cli("resume", "sleeper")
    cli("wait", "sleeper", "--for", "running", "--timeout", "90s")
    cli("delete", "sleeper")


def test_a_second_ctrl_c_kills_what_does_not_want_to_stop(on_terminal: Open, cli: CommandLine) -> None:
    terminal = on_terminal(cli, "run", "stubborn.yaml", "--no-limits")
    terminal.wait_for("up")
    terminal.type(CTRL_C)
    terminal.wait_for("Ctrl-C again")
    terminal.wait_for("told")  # it got SIGTERM, and SIGKILL is an hour away
    terminal.type(CTRL_C)
    assert terminal.end() == 130
    (job,) = json.loads(cli("ps", "-o", "json"))["items"]
    assert job["state"] == "Suspended"
    assert json.loads(cli("status", "stubborn", "-o", "json"))["replicas"][0]["exitCode"] == 137
    assert processes_of(cli.home) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_end_of_the_session_stops_an_attached_run_in_order(
    on_terminal: Open, cli: CommandLine, number: signal.Signals
) -> None:
    terminal = on_terminal(cli, "run", "sleeper.yaml", "--no-limits")
    terminal.wait_for("up")
    terminal.process.send_signal(number)
    assert terminal.end() == 130
    assert "stopped" in terminal.screen
    assert terminal.screen.rindex("\x1b[?25h") > terminal.screen.rindex("\x1b[?25l"), "the cursor is shown again"
    assert processes_of(cli.home) == []


def test_one_signal_ends_a_run_whose_terminal_takes_nothing(on_terminal: Open, cli: CommandLine) -> None:
    """As after Ctrl-S: a terminal that was closed in the meantime does not send a second signal."""
    terminal = on_terminal(cli, "run", "sleeper.yaml", "--no-limits")
    terminal.wait_for("up")
    terminal.type(CTRL_S)
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.process.wait(120) == 130
    terminal.end()
    assert processes_of(cli.home) == []
    (job,) = json.loads(cli("ps", "-o", "json"))["items"]
    assert (job["state"], job["reason"]) == ("Suspended", "Stopped")


def test_kill_9_of_an_attached_run_leaves_no_process_and_a_suspended_job(on_terminal: Open, cli: CommandLine) -> None:
    terminal = on_terminal(cli, "run", "sleeper.yaml", "--no-limits")
    terminal.wait_for("up")
    terminal.process.kill()
    assert terminal.end() == -signal.SIGKILL
    (job,) = json.loads(cli("ps", "-o", "json"))["items"]
    assert (job["state"], job["reason"], job["ready"]) == ("Suspended", "Interrupted", "0/1")
    wait_until(lambda: not processes_of(cli.home), 60)
    assert "exited" not in cli("status", "sleeper")
    cli("run", "fails.yaml", "--name", "sleeper", "--no-limits", code=1)


def test_kill_9_of_the_background_driver_is_healed_by_the_next_command(sleeper: CommandLine) -> None:
    sleeper("wait", "sleeper", "--for", "running", "--timeout", "90s")
    (before,) = drivers(sleeper)
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: before not in drivers(sleeper), 60)
    assert "Running" in sleeper("ps")
    wait_until(lambda: len(drivers(sleeper)) == 1, 60)
    assert json.loads(sleeper("status", "sleeper", "-o", "json"))["restarts"] == 0


def test_storage_of_another_folder_is_used_only_after_a_yes(
    on_terminal: Open, cli: CommandLine, tmp_path: Path
) -> None:
    scripts = [tmp_path / name / "note.sh" for name in ("one", "two")]
    for script in scripts:
        script.parent.mkdir()
        script.write_text("ls $TFJOB_CHECKPOINT_DIR; touch $TFJOB_CHECKPOINT_DIR/kept")
    cli("run", str(scripts[0]))
    words = ("run", str(scripts[1]), "--name", "note")
    for answer, code in (("n", 2), ("y", 0)):
        terminal = on_terminal(cli, *words)
        terminal.wait_for("[y/N]")
        assert str(scripts[0].parent) in terminal.screen
        terminal.type(f"{answer}\n")
        assert terminal.end() == code
        assert ("kept" in terminal.screen.partition("[y/N]")[2]) == (code == 0)
    terminal = on_terminal(cli, *words)
    assert terminal.end() == 0
    assert "[y/N]" not in terminal.screen, "asked once"


def test_deleting_a_running_job_asks_on_a_terminal_and_takes_no_for_an_answer(
    on_terminal: Open, sleeper: CommandLine
) -> None:
    terminal = on_terminal(sleeper, "delete", "sleeper")
    terminal.wait_for("[y/N]")
    assert "sleeper.1" in terminal.screen
    terminal.type("n\n")
    assert terminal.end() == 130
    assert "sleeper" in sleeper("ps")
    terminal = on_terminal(sleeper, "delete", "sleeper")
    terminal.wait_for("[y/N]")
    terminal.type("y\n")
    assert terminal.end() == 0
    sleeper.golden("delete-asks", terminal.screen.replace("\r\n", "\n"), exact=True)


def test_ctrl_c_ends_a_follower_and_not_the_job(on_terminal: Open, running: CommandLine) -> None:
    terminal = on_terminal(running, "logs", "sleeper", "-f")
    terminal.wait_for("up")
    terminal.type(CTRL_C)
    assert terminal.end() == 130
    assert "Running" in running("ps")


def test_a_shell_inside_a_replica_has_a_terminal(on_terminal: Open, running: CommandLine) -> None:
    terminal = on_terminal(
        running, "exec", "sleeper", "worker-0", "--", "sh", "-c", "tty >/dev/null && echo on a terminal"
    )
    assert terminal.end() == 0
    assert "on a terminal" in terminal.screen


def notices(screen: str, *keywords: str) -> str:
    """Find the line with each keyword on a screen, without its colors."""
    lines = re.split(r"[\r\n]+", re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", screen))
    return "".join(f"{next(line for line in lines if keyword in line)}\n" for keyword in keywords)


def drivers(cli: CommandLine) -> list[int]:
    """The background drivers of a state folder."""
    return [pid for pid in processes_of(cli.home) if b"tfjob.launch.background" in cmdline(pid)]


def cmdline(pid: int) -> bytes:
    """Return the arguments of a process, which may be gone."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""
