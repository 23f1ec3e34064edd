"""`tfjob tensorboard`: the curves of a job in a browser, here or through the cluster's API server."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from tfjob.cli import outcome
from tfjob.cli.completing import JOB
from tfjob.cli.context import On, console, namespace_option, on_option

if TYPE_CHECKING:
    from tfjob.controller.console import Board

DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


@click.command()
@click.argument("job", type=JOB)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Where to listen on this machine; unset: 6006, or any other if that is taken; 0: any.",
)
@click.option(
    "--browser/--no-browser",
    default=None,
    help="Open a browser; unset: if there are a terminal and a display.",
)
@on_option
@namespace_option
def tensorboard(job: str, port: int | None, browser: bool | None, on: On, namespace: str) -> None:
    """Show the TensorBoard of a job, running or finished, until Ctrl-C.

    On this machine it starts one; on a cluster it forwards a port to the one that runs there.
    """
    with console(on, namespace, write=False) as there:
        record = there.find(job)
        board = record.job.spec.tensor_board
        if board is None:
            raise outcome.Stop(
                outcome.NOT_FOUND,
                f"{record.id} has no TensorBoard",
                "Its manifest asks for one with spec.tensorBoard and a logDir: docs/guides/tensorboard.md",
            )

        def tell(found: Board) -> None:
            click.echo(f"TensorBoard of {record.id}: {found.url}")
            click.echo(f"no event files yet in {found.log_dir}" if found.is_empty else f"it shows {found.log_dir}")
            if _wants_browser() if browser is None else browser:
                click.launch(found.url)
            click.echo("Press Ctrl-C to end.")
            sys.stdout.flush()

        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job would ignore it
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: signal.raise_signal(signal.SIGINT))
        with suppress(KeyboardInterrupt):
            there.tensorboard(record, port, tell)


def _wants_browser() -> bool:
    has_display = sys.platform == "darwin" or any(map(os.environ.get, DISPLAYS))
    return has_display and sys.stdout is not None and sys.stdout.isatty()
