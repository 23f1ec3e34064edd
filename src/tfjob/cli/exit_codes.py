"""How a command ends: exit codes, and errors as one clear message instead of a traceback.

A base install lacks the modules of the extras. Commands import them where they need them; if one is missing, the error
contains the command that installs its extra. A command that needs a whole extra uses `needs`:

    with exit_codes.needs("operator"):
        from tfjob.operator.process.manager import run
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, TextIO

import click

from tfjob.errors import NotFound, UserError

SUCCEEDED, FAILED, BAD_INPUT, NOT_FOUND, TIMEOUT, INTERRUPTED = 0, 1, 2, 3, 4, 130
BUG = 70
"""An internal error of tfjob; no other exit code may be confused with it."""
EXTRAS = {
    "tensorflow": ("tensorflow",),
    "tensorboard": ("tensorboard",),
    "kube": ("aiohttp",),
    "operator": ("cryptography", "prometheus_client", "uvloop"),
    "serve": ("aiohttp", "grpc", "grpc_health", "grpc_reflection", "google", "numpy", "orjson", "uvloop"),
}
"""The modules that each extra of the package installs, by import name."""
DISTRIBUTIONS = {
    "google": "protobuf",
    "grpc": "grpcio",
    "grpc_health": "grpcio-health-checking",
    "grpc_reflection": "grpcio-reflection",
}
"""The names of packages that differ from those of their modules."""


class Stop(UserError):
    """Ends a command with a message on stderr and an exit code."""

    def __init__(self, code: int, message: str = "", hint: str = "", warnings: Sequence[object] = ()) -> None:
        super().__init__(message, hint)
        self.code = code
        self.warnings = warnings


def guarded(command: Callable[..., Any]) -> NoReturn:
    """Run the command line and turn every failure into a message and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Escape characters that the terminal cannot show.
            stream.reconfigure(errors="backslashreplace")
    code = _code_of(command)
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        discard(sys.stdout)
        if not isinstance(error, BrokenPipeError):
            complain(Stop(BAD_INPUT, f"cannot write the output: {error.strerror}"))
            code = code or BAD_INPUT
    sys.exit(code)


def _code_of(command: Callable[..., Any]) -> int:
    try:
        code = command(prog_name="tfjob", standalone_mode=False, color=colour())
    except click.exceptions.Exit as done:
        return done.exit_code
    except (click.exceptions.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except click.ClickException as error:
        if isinstance(error, click.NoSuchOption):
            error = click.UsageError(unknown_option(error), error.ctx)
        shown = io.StringIO()
        error.show(shown)
        text = shown.getvalue().replace("Error:", click.style("error:", fg="red"), 1)
        click.echo(text, nl=False, err=True, color=colour())
        return BAD_INPUT
    except (BrokenPipeError, SystemExit):
        # The reader of our output is gone, as with `| head`. click would exit with 1, which means a failed job.
        discard(sys.stdout)
        return SUCCEEDED
    except Exception as error:
        stop = explained(error)
        if stop is None:
            return _admit(error)
        complain(stop)
        return stop.code
    return code if isinstance(code, int) else SUCCEEDED


def unknown_option(error: click.NoSuchOption) -> str:
    """Return the message for an unknown option, with the option that the user probably meant."""
    from difflib import get_close_matches

    options = [name for one in (error.ctx.command.params if error.ctx else ()) for name in one.opts]
    known = [name[2:] for name in options if name.startswith("--")]
    near = get_close_matches(error.option_name.lstrip("-"), known, n=1, cutoff=0.7)  # -- would make all names similar
    return f"{error.message}{f' Did you mean --{near[0]}?' if near else ''}"


def explained(error: Exception) -> Stop | None:
    """Return what an error means for the user; None for an internal error."""
    import sqlite3

    match error:
        case Stop():
            return error
        case UserError():
            code = NOT_FOUND if isinstance(error, NotFound) else BAD_INPUT
            return Stop(code, error.message, error.hint or error.advice, error.warnings)
        case ModuleNotFoundError():
            return missing_extra(error)
        case sqlite3.Error():
            hint = "To use another state folder, set TFJOB_HOME."
            return Stop(BAD_INPUT, f"cannot use the database in the state folder: {error}", hint)
        case IsADirectoryError():
            return Stop(BAD_INPUT, f"{error.filename} is a folder", "Name a manifest in it.")
        case OSError() if error.filename:
            return Stop(BAD_INPUT, f"{error.filename}: {error.strerror}")
        case OSError():
            return Stop(BAD_INPUT, error.strerror or str(error))
    return None


def discard_output() -> None:
    """Discard stdout, and also stderr if it has the same reader, which would block us there too."""
    if one_file(sys.stdout, sys.stderr):
        discard(sys.stderr)
    discard(sys.stdout)


def discard(stream: TextIO) -> None:
    """Discard what is still buffered and everything printed later."""
    descriptor = os.open(os.devnull, os.O_WRONLY)
    os.dup2(descriptor, stream.fileno())
    os.close(descriptor)


def one_file(one: TextIO | None, other: TextIO | None) -> bool:
    """Return whether two streams lead to the same pipe, terminal or file; False if one is closed or not a file."""
    try:
        return one is not None and other is not None and os.path.sameopenfile(one.fileno(), other.fileno())
    except (OSError, ValueError):
        return False


def _admit(error: Exception) -> int:
    """Report an internal error; raise it if TFJOB_DEBUG requests the traceback."""
    if os.environ.get("TFJOB_DEBUG"):
        raise error
    hint = "This is a bug in tfjob. Run the command again with TFJOB_DEBUG=1 and report the traceback."
    complain(Stop(BUG, f"internal error: {type(error).__name__}: {error}", hint))
    return BUG


def colour() -> bool | None:
    """Return False if NO_COLOR is set; None leaves the choice to click."""
    return False if os.environ.get("NO_COLOR") else None


def print_warnings(warnings: Iterable[object]) -> None:
    for warning in warnings:
        click.echo(str(warning), err=True)


@contextmanager
def name_in_use(options: Callable[[str], str]) -> Iterator[None]:
    """Add a hint to NameInUse; `options` returns the options of a command line for a namespace."""
    from tfjob.jobs.find import NameInUse

    try:
        yield
    except NameInUse as error:
        command = f"tfjob delete {error.name}{options(error.namespace)}"
        hint = f"Choose another name with --name, or delete the job: {command}"
        if error.can_change:
            hint = f"To update it: tfjob submit FILE; to delete it: {command}"
        raise Stop(BAD_INPUT, error.message, hint) from None


def complain(stop: Stop) -> None:
    print_warnings(stop.warnings)
    if stop.message:
        click.echo(click.style("error:", fg="red") + f" {stop.message}", err=True, color=colour())
    if stop.hint:
        click.echo(stop.hint, err=True)


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Stop with the install command of `extra` if a module of any extra is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        stop = missing_extra(error, extra)
        if stop is None:
            raise
        raise stop from None


def missing_extra(error: ModuleNotFoundError, extra: str = "") -> Stop | None:
    """Return the error for a missing module; None if it belongs to no extra, which is a bug."""
    module = (error.name or "").partition(".")[0]
    found = next((name for name, modules in EXTRAS.items() if module in modules), None)
    if found is None:
        return None
    line = f"{sys.executable} -m pip install 'tfjob[{extra or found}]'"
    package = DISTRIBUTIONS.get(module, module)
    return Stop(BAD_INPUT, f"the Python package {package} is not installed", f"To install it: {line}")
