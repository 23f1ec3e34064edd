"""A program in a terminal of its own: what it shows, and keys pressed in it."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from pathlib import Path
from types import TracebackType
from typing import Self


class PseudoTerminal:
    """A program that sees a terminal of 24 lines; `shown` is all that it has written there."""

    def __init__(self, command: list[str], env: dict[str, str], cwd: Path, columns: int = 120) -> None:
        self._outer, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.process = subprocess.Popen(
            command,
            env=env,
            cwd=cwd,
            preexec_fn=lambda: os.login_tty(inner),  # so that ^C is for it
        )
        os.close(inner)
        self.shown = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._outer)

    def press(self, keys: str) -> None:
        """Presses keys."""
        os.write(self._outer, keys.encode())

    def wait_for(self, text: str, timeout: float = 120) -> None:
        """Waits until a text is shown that was not there when this was called."""
        begin = len(self.shown)
        deadline = time.monotonic() + timeout
        while text not in self.shown[begin:]:
            left = deadline - time.monotonic()
            assert left > 0, f"no {text!r} in {self.shown!r}"
            if select.select([self._outer], [], [], left)[0] and not self._read():
                assert text in self.shown[begin:], f"it ended without {text!r}: {self.shown!r}"
                return

    def finish(self, timeout: float = 120) -> int:
        """Waits for the end; returns the exit code."""
        deadline = time.monotonic() + timeout
        while (left := deadline - time.monotonic()) > 0:
            if select.select([self._outer], [], [], left)[0] and not self._read():
                break
        return self.process.wait(max(1.0, left))

    def _read(self) -> bool:
        """Takes what is there; False when there will be no more."""
        try:
            data = os.read(self._outer, 65536)
        except OSError:  # Linux' way to say that the other end is closed
            return False
        self.shown += data.decode(errors="replace")
        return bool(data)
