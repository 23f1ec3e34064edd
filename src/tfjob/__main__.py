"""`python -m tfjob` and the `tfjob` script."""

from __future__ import annotations

import gc
import sys

OBJECTS = 20_000
"""Allocations between garbage collections. Most commands read, print and end: with Python's default of 700, collections
take a fifth of a `ps` of a thousand runs."""


def main() -> None:
    """Run the command line and end the process with its exit code."""
    gc.set_threshold(OBJECTS)
    try:
        from tfjob.cli.exit_codes import guarded
        from tfjob.cli.main import cli

        guarded(cli)
    except KeyboardInterrupt:  # before or after `guarded` handles it
        sys.exit(130)


if __name__ == "__main__":
    main()
