"""`python -m tfjob` and the `tfjob` script."""

from __future__ import annotations

import sys


def main() -> None:
    """Runs the command line and ends the process with its exit code."""
    try:
        from tfjob.cli.main import cli
        from tfjob.cli.outcome import guarded

        guarded(cli)
    except KeyboardInterrupt:  # before `guarded` could see to it, or after
        sys.exit(130)


if __name__ == "__main__":
    main()
