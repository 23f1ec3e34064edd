"""A terminal that somebody looks at: a shell in tmux, what it shows, its keys and its size."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from support.running import wait_until

PROMPT = "ready>"


class Tmux:
    """One shell in one window."""

    def __init__(self, socket: Path, env: Mapping[str, str]) -> None:
        self._socket = socket
        self._env = dict(env)
        self._asked = 0

    def call(self, *words: str) -> str:
        """A command of tmux itself."""
        command = ["tmux", "-S", str(self._socket), "-f", "/dev/null", *words]
        done = subprocess.run(command, env=self._env, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    def type(self, text: str) -> None:
        """A line, with the Enter key."""
        self.call("send-keys", "-l", text)
        self.call("send-keys", "Enter")

    def press(self, key: str) -> None:
        """One key: `C-c`."""
        self.call("send-keys", key)

    def resize(self, width: int, height: int) -> None:
        """Another size, as when somebody pulls at the window."""
        self.call("resize-window", "-x", str(width), "-y", str(height))

    def everything(self) -> str:
        """What the window shows and what was scrolled out of it, without the colours; broken lines are joined."""
        return self.call("capture-pane", "-p", "-J", "-S", "-").rstrip() + "\n"

    def screen(self) -> str:
        """What the window shows, row by row."""
        return self.call("capture-pane", "-p").rstrip() + "\n"

    @property
    def has_cursor(self) -> bool:
        """Whether the cursor can be seen."""
        return self.call("display-message", "-p", "#{cursor_flag}").strip() == "1"

    def wait_for(self, pattern: str, timeout: float = 120) -> re.Match[str]:
        """Waits until something of all that was shown matches; the lines of a match are whole lines."""
        found: list[re.Match[str]] = []

        def looks() -> bool:
            found[:] = re.finditer(pattern, self.everything(), re.MULTILINE)
            return bool(found)

        wait_until(looks, timeout, lambda: f"no {pattern!r} in:\n{self.everything()}")
        return found[-1]

    def wait_for_prompt(self, timeout: float = 120) -> None:
        """Waits until the shell wants the next command."""
        wait_until(
            lambda: f"\n{self.screen()}".rstrip().endswith(f"\n{PROMPT}"),
            timeout,
            lambda: f"no prompt in:\n{self.everything()}",
        )

    def answer(self, command: str) -> str:
        """What a short command prints."""
        self.wait_for_prompt()
        self._asked += 1  # what an earlier answer left on the screen must not be taken for this one
        self.type(f"clear; {command}; echo :done{self._asked}")
        self.wait_for(rf"^:done{self._asked}$")
        return self.screen().partition(f":done{self._asked}")[0].strip()


@contextmanager
def tmux(env: Mapping[str, str], folder: Path, width: int, height: int) -> Iterator[Tmux]:
    """A shell in a window of that size."""
    assert shutil.which("tmux"), "tests of the terminal need tmux (apt-get install tmux)"
    # The path of a socket must be short, and tests have long names.
    place = Path(tempfile.mkdtemp(prefix="tmux-"))
    terminal = Tmux(place / "s", {**env, "PS1": PROMPT + " ", "TMUX_TMPDIR": str(place), "TERM": "xterm-256color"})
    shell = ("bash", "--norc", "--noprofile", "-i")
    try:
        terminal.call("new-session", "-d", "-x", str(width), "-y", str(height), "-c", str(folder), *shell)
        terminal.call("set-option", "-g", "history-limit", "5000")
        terminal.wait_for(f"^{PROMPT}")
        yield terminal
    finally:
        subprocess.run(["tmux", "-S", str(place / "s"), "kill-server"], capture_output=True, timeout=60, check=False)
        wait_until(lambda: not _answers(place / "s"), 60)
        shutil.rmtree(place)


def _answers(socket: Path) -> bool:
    """Whether the server is still there."""
    if not socket.exists():
        return False
    words = ["tmux", "-S", os.fspath(socket), "list-sessions"]
    return subprocess.run(words, capture_output=True, timeout=60, check=False).returncode == 0
