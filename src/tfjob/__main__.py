"""`python -m tfjob` and the `tfjob` script."""

from __future__ import annotations


def main() -> None:
    """Runs the command line and ends the process with its exit code."""
    from tfjob.cli.main import cli
    from tfjob.cli.outcome import guarded

    guarded(cli)


if __name__ == "__main__":
    main()
