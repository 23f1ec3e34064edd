"""`timeout --signal NAME SECONDS COMMAND` for pages that press Ctrl-C: never before the command says that one may.

A page shows a number of seconds that suits its reader's machine. Where the tests run, the command may need longer to
begin; the signal comes after those seconds, or when it has begun, whichever is later.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time

BEGUN = "Press Ctrl-C to stop."
TIMED_OUT = 124
"""The exit code by which the real one says that it sent the signal."""


def main(option: str, name: str, seconds: str, *command: str) -> int:
    """Runs the command and passes on what it prints; the exit code is that of `timeout`."""
    assert option == "--signal"
    due = time.monotonic() + float(seconds)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    is_due = False
    for line in process.stdout:
        print(line, end="", flush=True)
        if line.strip() == BEGUN:
            is_due = True
            time.sleep(max(0.0, due - time.monotonic()))
            process.send_signal(signal.Signals[f"SIG{name}"])
    code = process.wait()
    return TIMED_OUT if is_due else code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
