"""How a command ends: exit codes, and errors as one clear message instead of a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import click

SUCCEEDED, FAILED, BAD_INPUT, NOT_FOUND, TIMEOUT, INTERRUPTED = 0, 1, 2, 3, 4, 130


class Stop(Exception):
    """Ends a command with a message on stderr and an exit code."""

    def __init__(self, code: int, message: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint


def guarded(command: Callable[..., Any]) -> NoReturn:
    """Runs the command line and turns every expected failure into its message and exit code."""
    try:
        code = command(standalone_mode=False)
    except click.exceptions.Exit as done:
        code = done.exit_code
    except click.exceptions.Abort:
        code = INTERRUPTED
    except click.ClickException as error:
        error.show()
        code = BAD_INPUT
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        # The reader of our output went away, as `| head` does; what is buffered has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = SUCCEEDED
    except Exception as error:
        stop = explained(error)
        if stop is None:
            raise
        code = stop.code
        _complain(stop)
    sys.exit(code if isinstance(code, int) else SUCCEEDED)


def explained(error: Exception) -> Stop | None:
    """What an error of the rooms below means for the user; None for a bug of ours."""
    from tfjob.api.problems import InvalidManifest
    from tfjob.local.refusal import Refusal
    from tfjob.local.runs import NotFound
    from tfjob.local.store import StoreError

    match error:
        case Stop():
            return error
        case InvalidManifest():
            return Stop(BAD_INPUT, str(error))
        case Refusal():
            return Stop(BAD_INPUT, error.message, error.hint)
        case NotFound():
            return Stop(NOT_FOUND, str(error))
        case StoreError():
            return Stop(BAD_INPUT, str(error))
        case OSError() if error.filename:
            return Stop(BAD_INPUT, f"{error.filename}: {error.strerror}")
        case OSError():
            return Stop(BAD_INPUT, str(error))
    return None


def _complain(stop: Stop) -> None:
    if stop.message:
        click.echo(f"error: {stop.message}", err=True)
    if stop.hint:
        click.echo(stop.hint, err=True)
