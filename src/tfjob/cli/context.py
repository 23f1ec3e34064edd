"""What most commands share: the state folder, the namespace, the output format, and finding a job."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from tfjob.local.home import Home
    from tfjob.local.store import Run, Store

Command = TypeVar("Command", bound=Callable[..., Any])


def namespace_option(command: Command) -> Command:
    """Adds `-n`."""
    return click.option("-n", "--namespace", default="default", show_default=True, help="Namespace of the job.")(
        command
    )


def output_option(command: Command) -> Command:
    """Adds `-o json`."""
    kinds = click.Choice(["text", "json"])
    return click.option("-o", "--output", type=kinds, default="text", show_default=True, help="Output format.")(command)


def home() -> Home:
    """The state folder of this user."""
    from tfjob.local.home import Home

    return Home.of(os.environ)


@contextmanager
def state(*, write: bool) -> Iterator[tuple[Home, Store]]:
    """The opened state; a reading command also works on a full or read-only disk, and without any state at all."""
    from tfjob.local.store import StoreError, open_store

    folder = home()
    if write or not folder.database.exists():
        try:
            folder.create()
        except OSError as error:
            raise StoreError(
                f"the state folder {folder.path} cannot be made: {error.strerror}; set TFJOB_HOME to another one"
            ) from None
    store = open_store(folder.database, write=write)
    try:
        yield folder, store
    finally:
        store.close()


def find_run(home: Home, store: Store, name: str, namespace: str) -> Run:
    """The run that `name` means, after seeing to it that it is driven if it should be."""
    from tfjob.local import runs
    from tfjob.local.driver import ensure_driven

    run = runs.find(store, name, namespace)
    if store.writable:
        ensure_driven(home, store, run)
    return runs.find(store, run.id, namespace)
