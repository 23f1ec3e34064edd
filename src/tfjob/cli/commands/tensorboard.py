"""`tfjob tensorboard`: serve TensorBoard on this machine, or forward a port to one on a cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

import click

from tfjob.cli.completion import JOB
from tfjob.cli.context import On, WholeNumber, find_job, open_backend, place_options, until_interrupted
from tfjob.errors import InvalidRequest

if TYPE_CHECKING:
    from tfjob.jobs.backend import Board

DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


@click.command()
@click.argument("jobs", nargs=-1, required=True, type=JOB, metavar="JOB...")
@click.option(
    "--port",
    type=WholeNumber(0, 65535),
    metavar="PORT",
    help="Local port; 0 for any free one; default: 6006, or any free one if that is taken.",
)
@click.option("--logdir", default="", metavar="FOLDER", help="Show the event files in FOLDER (this machine only).")
@click.option(
    "--browser/--no-browser",
    default=None,
    help="Open a browser; default: if there is a terminal and a display.",
)
@place_options
def tensorboard(
    jobs: tuple[str, ...], port: int | None, logdir: str, browser: bool | None, on: On, namespace: str
) -> None:
    """Open TensorBoard for running or finished jobs, until Ctrl-C.

    On this machine, one TensorBoard shows all the jobs, each under its name. If a job has spec.tensorBoard.logDir, that
    folder is shown; otherwise the event files in its storage and in the folders logs and runs of its working folder.
    On a cluster, tfjob forwards one port per job to the TensorBoard that runs there.

    \b
    tfjob tensorboard mnist              one job
    tfjob tensorboard mnist mnist-wide   two jobs on one page
    tfjob tensorboard mnist.1 mnist.2    two runs of one job
    """
    if logdir and len(jobs) > 1:
        raise InvalidRequest("--logdir names the folder of one job", "Show one job at a time.")
    if not on.cluster:
        logdir = _existing_folder(logdir)
    with open_backend(on, namespace, write=False) as there:
        records = list({record.uid: record for record in map(partial(find_job, there), jobs)}.values())
        if servers := [record.id for record in records if record.is_server]:
            raise InvalidRequest(f"{servers[0]} is a Deployment; only TFJobs have a TensorBoard")

        def tell(boards: Sequence[Board]) -> None:
            for url, group in groupby(zip(records, boards, strict=True), lambda pair: pair[1].url):
                shown = list(group)
                click.echo(f"TensorBoard of {', '.join(record.id for record, _ in shown)}: {url}")
                for _, board in shown:
                    name = f"{board.job}: " if len(shown) > 1 else ""
                    state = "no event files yet in" if board.is_empty else "showing"
                    click.echo(f"{name}{state} {board.log_dir}")
                if _wants_browser() if browser is None else browser:
                    click.launch(url)
            click.echo("Press Ctrl-C to stop.")
            sys.stdout.flush()

        with until_interrupted():
            there.tensorboard(records, port, tell, logdir)


def _existing_folder(value: str) -> str:
    """Return the absolute path of a folder; the address of an object store is returned unchanged."""
    if not value or "://" in value:
        return value
    from pathlib import Path

    if not Path(value).is_dir():
        hint = "" if Path(value).is_absolute() else f"A relative path starts at the current folder, {Path.cwd()}."
        raise InvalidRequest(f"--logdir {value}: there is no such folder", hint)
    return str(Path(value).absolute())


def _wants_browser() -> bool:
    has_display = sys.platform == "darwin" or any(map(os.environ.get, DISPLAYS))
    return has_display and sys.stdout is not None and sys.stdout.isatty()
