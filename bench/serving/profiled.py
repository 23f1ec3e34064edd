"""A model server whose event loop is profiled: python profiled.py FILE FLAG...

SIGUSR1 starts the profile. SIGUSR2 writes it to the file, as lines `SECONDS FUNCTION` with the time in each function
without the functions that it calls. Of the functions in C, only those that Python calls are seen, so the time of the
loop itself is missing.
"""

from __future__ import annotations

import cProfile
import os
import signal
import sys
from pathlib import Path
from types import CodeType


def main(file: Path, flags: list[str]) -> int:
    os.environ["GRPC_VERBOSITY"] = "ERROR"
    from tfjob.serve.server import main as serve

    profile = cProfile.Profile()

    def write(*_: object) -> None:
        profile.disable()
        entries = sorted(profile.getstats(), key=lambda entry: entry.inlinetime, reverse=True)
        part = file.with_suffix(".part")
        part.write_text("".join(f"{entry.inlinetime} {name(entry.code)}\n" for entry in entries))
        part.rename(file)

    signal.signal(signal.SIGUSR1, lambda *_: profile.enable())
    signal.signal(signal.SIGUSR2, write)
    return serve(flags, os.environ)


def name(code: CodeType | str) -> str:
    if isinstance(code, str):
        return code.strip("<>")
    path = Path(code.co_filename)
    return f"{path.parent.name}/{path.name}:{code.co_name}"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
