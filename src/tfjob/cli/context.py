"""What most commands share: the state folder, the namespace, the output format, and finding a job."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tfjob.cli import outcome

if TYPE_CHECKING:
    from tfjob.controller.console import Console
    from tfjob.local.home import Home
    from tfjob.local.store import Store

Command = TypeVar("Command", bound=Callable[..., Any])


def namespace_option(command: Command) -> Command:
    """Adds `-n`."""
    return click.option(
        "-n",
        "--namespace",
        default="default",
        show_default=True,
        metavar="NAME",
        callback=valid_namespace,
        help="Namespace of the job.",
    )(command)


def valid_namespace(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Refuses what cannot be a namespace; it becomes the name of a folder."""
    import re

    if value and not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", value):
        raise click.BadParameter(f"{value!r} is no namespace: write small letters, digits and -", ctx, param)
    return value


def output_option(command: Command) -> Command:
    """Adds `-o json`."""
    kinds = click.Choice(["text", "json"])
    return click.option("-o", "--output", type=kinds, default="text", show_default=True, help="Output format.")(command)


def home() -> Home:
    """The state folder of this user."""
    from tfjob.local.home import Home

    try:
        return Home.of(os.environ)
    except RuntimeError:
        raise outcome.Stop(
            outcome.BAD_INPUT, "this user has no home folder", "Set TFJOB_HOME to a folder for the state."
        ) from None


@contextmanager
def state(*, write: bool) -> Iterator[tuple[Home, Store]]:
    """The opened state; a reading command also works on a full or read-only disk, and without any state at all."""
    from tfjob.local.database import StoreError
    from tfjob.local.store import open_store

    folder = home()
    if write:
        try:
            folder.create()
        except OSError as error:
            raise StoreError(
                f"the state folder {folder.path} cannot be made: {error.strerror}; TFJOB_HOME can name another one"
            ) from None
    store = open_store(folder.database, write=write)
    try:
        yield folder, store
    finally:
        store.close()


@contextmanager
def console(namespace: str, *, write: bool) -> Iterator[Console]:
    """The jobs of one namespace; `write` says whether the command will change something."""
    from tfjob.local.console import LocalConsole

    with state(write=write) as (folder, store):
        yield LocalConsole(folder, store, namespace)
