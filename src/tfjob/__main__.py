"""`python -m tfjob` and the `tfjob` script."""

from __future__ import annotations

import gc
import sys

OBJECTS = 20_000
"""How many more there may be before rubbish is looked for: most commands read, print and end. With Python's own 700
that search is a fifth of a `ps` of a thousand runs."""


def main() -> None:
    """Runs the command line and ends the process with its exit code."""
    gc.set_threshold(OBJECTS)
    try:
        from tfjob.cli.exit_codes import guarded
        from tfjob.cli.main import cli

        guarded(cli)
    except KeyboardInterrupt:  # before `guarded` could see to it, or after
        sys.exit(130)


if __name__ == "__main__":
    main()
