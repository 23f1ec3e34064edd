"""`tfjob delete` and `tfjob prune`: delete jobs and their records, but not their claims."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

import click

from tfjob.cli import exit_codes
from tfjob.cli.completion import JOB
from tfjob.cli.context import (
    On,
    find_job,
    job_options,
    namespace_option,
    on_option,
    open_backend,
    output_option,
    time_span,
)
from tfjob.cli.exit_codes import Stop
from tfjob.cli.output import print_jobs

if TYPE_CHECKING:
    from tfjob.jobs.backend import Record


@click.command()
@click.argument("jobs", nargs=-1, required=True, type=JOB, metavar="JOB...")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@job_options
def delete(jobs: tuple[str, ...], yes: bool, on: On, namespace: str, output: str) -> None:
    """Delete jobs: end their replicas and delete their records and logs.

    Claims (PersistentVolumeClaims, kept as folders on this machine) stay; `tfjob volume` lists and deletes them.

    In a terminal, asks for confirmation before it ends a running job.
    """
    from tfjob.jobs.explain import own_claim

    with open_backend(on, namespace, write=True) as there:
        found = list({record.uid: record for record in map(partial(find_job, there), jobs)}.values())
        alive = [record.id for record in found if record.current and not record.is_finished]
        if alive and not yes and sys.stdin is not None and sys.stdin.isatty():
            verb = "is" if len(alive) == 1 else "are"
            if not click.confirm(f"{', '.join(alive)} {verb} still active. Delete?", err=True):
                raise Stop(exit_codes.INTERRUPTED, "nothing was deleted")
        claims = {claim: record.options for record in found if (claim := own_claim(record, there.storage(record)))}
        for record in found:
            there.delete(record)
        names = {(record.namespace, record.name) for record in found if record.current}
        runs = [] if there.shared else there.jobs(everything=True, all_namespaces=True)
        kept = [record.id for record in runs if (record.namespace, record.name) in names]
    lines = [f"deleted {record.id}" for record in found]
    for claim, options in claims.items():
        lines.append(f"kept claim {claim} and its files; to delete them: tfjob volume delete {claim}{options}")
    if kept:
        lines.append(f"kept the earlier runs {', '.join(kept)}; delete them by these names, or use tfjob prune")
    print_jobs(found, output, lines)


def _age(value: str) -> timedelta:
    """Parse a duration that must have a unit: `--older 3` may mean days, and what it deletes is gone."""
    if value.isdecimal():
        raise click.BadParameter(f"{value!r} has no unit: use s, m, h, d or w, such as 30d")
    return time_span(value)


@click.command()
@click.option(
    "--older",
    default="30d",
    show_default=True,
    type=_age,
    metavar="AGE",
    help="Delete only runs that ended longer ago than this, such as 12h or 30d.",
)
@click.option("--dry-run", is_flag=True, help="Only print what would be deleted.")
@on_option
@namespace_option("Namespace. Default: all; on a cluster, the namespace of the kubeconfig context.")
@output_option
def prune(older: timedelta, dry_run: bool, on: On, namespace: str, output: str) -> None:
    """Delete the records of finished runs, in all namespaces or in that of -n.

    Claims (PersistentVolumeClaims, kept as folders on this machine) stay; `tfjob volume` lists and deletes them.

    With --on k8s: delete the finished jobs of one namespace, and their records on this machine.
    """
    from tfjob.jobs.report import span

    oldest = datetime.now(UTC) - older
    with open_backend(on, namespace, write=not dry_run) as there:
        everything = there.jobs(everything=True, all_namespaces=not (namespace or there.shared))
        doomed = [record for record in everything if _ended_before(record, oldest)]
        for record in () if dry_run else doomed:
            there.delete(record)
    lines = [f"{'would delete' if dry_run else 'deleted'} {record.id}" for record in doomed]
    print_jobs(doomed, output, lines or [f"no run ended more than {span(older)} ago"])


def _ended_before(record: Record, moment: datetime) -> bool:
    """Return whether a run ended before `moment`; a replaced run without an end counts from its start."""
    ended = record.status.completion_time or (None if record.current else record.created)
    return ended is not None and ended <= moment
