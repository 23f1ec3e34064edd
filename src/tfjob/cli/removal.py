"""`tfjob delete` and `tfjob prune`: removing jobs with their records; claims stay."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from tfjob.cli.context import find_run, namespace_option, output_option, state
from tfjob.cli.durations import time_span

if TYPE_CHECKING:
    from tfjob.api.types import TFJob
    from tfjob.local.home import Home
    from tfjob.local.store import Run, Store

POLL_SECONDS = 0.1


@click.command()
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@namespace_option
@output_option
def delete(jobs: tuple[str, ...], yes: bool, namespace: str, output: str) -> None:
    """Remove jobs: their replicas end, their records and logs go. Claims stay.

    Asks before it ends a job that runs, if there is a terminal to ask on.
    """
    from tfjob.cli.shapes import print_list, run_shape
    from tfjob.plan.plan import is_finished

    with state(write=True) as (home, store):
        named = [find_run(home, store, job, namespace) for job in jobs]
        found = list({run.job.metadata.uid: run for run in named}.values())
        alive = [run.id for run in found if run.current and not is_finished(run.job.status)]
        if alive and not yes and sys.stdin is not None and sys.stdin.isatty():
            verb = "has" if len(alive) == 1 else "have"
            click.confirm(f"{', '.join(alive)} {verb} not ended. Delete?", abort=True, err=True)
        shapes = [run_shape(run) for run in found]
        for run in found:
            remove_run(home, store, run)
    if output == "json":
        print_list("Job", shapes)
        return
    for run in found:
        click.echo(f"deleted {run.id}")


@click.command()
@click.option(
    "--older",
    default="30d",
    show_default=True,
    callback=time_span,
    metavar="AGE",
    help="Only runs that ended so long ago: 12h, 30d.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@output_option
def prune(older: timedelta, dry_run: bool, output: str) -> None:
    """Remove the records of runs that are over, in all namespaces. Claims stay."""
    from tfjob.cli.shapes import print_list, run_shape
    from tfjob.cli.tables import span

    oldest = datetime.now(UTC) - older
    with state(write=not dry_run) as (home, store):
        doomed = [run for run in store.runs() if _ended_before(run, oldest)]
        shapes = [run_shape(run) for run in doomed]
        for run in () if dry_run else doomed:
            remove_run(home, store, run)
    if output == "json":
        print_list("Job", shapes)
        return
    for run in doomed:
        click.echo(f"{'would delete' if dry_run else 'deleted'} {run.id}")
    if not doomed:
        click.echo(f"nothing ended more than {span(older)} ago")


def remove_run(home: Home, store: Store, run: Run) -> None:
    """Ends a run if it lives, then removes everything it left."""
    from tfjob.local import runs
    from tfjob.local.driving import ensure_driven, is_driven, is_settled

    uid = run.job.metadata.uid
    if run.current and not is_settled(store, uid):
        store.update_job(uid, _doomed)
        while not is_settled(store, uid):
            present = store.run(uid)
            if present is not None:
                ensure_driven(home, store, present)
            time.sleep(POLL_SECONDS)
    while is_driven(run):
        time.sleep(POLL_SECONDS)
    runs.remove(store, run)


def _doomed(job: TFJob) -> TFJob:
    when = datetime.now(UTC).replace(microsecond=0)
    return replace(job, metadata=replace(job.metadata, deletion_timestamp=when))


def _ended_before(run: Run, moment: datetime) -> bool:
    """Whether a run was over by then; one whose name went to another before it ended counts from its start."""
    ended = run.job.status.completion_time or (None if run.current else run.created)
    return ended is not None and ended <= moment
