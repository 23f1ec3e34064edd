"""`tfjob delete` and `tfjob prune`: delete jobs and their records, but not their claims."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from tfjob.cli import exit_codes
from tfjob.cli.context import (
    On,
    job_options,
    namespace_option,
    on_option,
    open_backend,
    output_option,
    time_span,
)
from tfjob.cli.exit_codes import Stop
from tfjob.cli.output import print_jobs
from tfjob.cli.selection import Results, jobs_argument, select_jobs
from tfjob.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfjob.jobs.backend import Record


@click.command()
@jobs_argument("Delete all jobs of the namespace.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation; required for --all without a terminal.")
@job_options
def delete(jobs: tuple[str, ...], every: bool, yes: bool, on: On, namespace: str, output: str) -> int:
    """Delete jobs: end their replicas and delete their records and logs.

    On this machine, this deletes the last run of a job. Earlier runs (`tfjob ps -a`) stay. Claims
    (PersistentVolumeClaims, kept as folders on this machine) stay; `tfjob volume` lists and deletes them.

    JOB is a name, a unique prefix, the id of an earlier run (mnist.1), or a quoted pattern of names ('mnist-*'). In a
    terminal, asks for confirmation before it ends a running job, and for patterns and --all.
    """
    from tfjob.jobs.explain import own_claim
    from tfjob.jobs.find import is_pattern

    with open_backend(on, namespace, write=True) as there:
        found = select_jobs(there, jobs, every=every)
        if found and not yes:
            _confirm(found, every=every, is_broad=every or any(map(is_pattern, jobs)))
        results = Results(found, output, is_list=True)
        claims, ending = {}, []
        for record in found:
            with results.of(record):
                if claim := own_claim(record, there.storage(record)):
                    claims[claim] = record.options
                if len(found) > 1:  # their grace periods run at the same time
                    there.request_deletion(record)
                ending.append(record)
        for record in ending:
            with results.of(record):
                there.delete(record)
                results.add(record, f"deleted {record.id}")
        names = {(record.namespace, record.name) for record in results.records if record.current}
        runs = [] if there.shared else there.jobs(everything=True, all_namespaces=True)
        kept = [record.id for record in runs if (record.namespace, record.name) in names]
        code = results.report(f"there are no jobs in namespace '{there.namespace}'")
    lines = []
    for claim, options in claims.items():
        lines.append(f"kept claim {claim} and its files; to delete them: tfjob volume delete {claim}{options}")
    if kept:
        lines.append(f"kept the earlier runs {', '.join(kept)}; delete them by these names, or use tfjob prune")
    if output == "text":
        print_jobs([], output, lines)
    return code


def _confirm(found: Sequence[Record], *, every: bool, is_broad: bool) -> None:
    """Ask in a terminal before jobs are deleted that are active, or that a pattern or `--all` selected."""
    if sys.stdin is None or not sys.stdin.isatty():
        if every:
            raise InvalidRequest("--all deletes all jobs of the namespace", "To confirm this: add --yes.")
        return
    alive = [record.id for record in found if record.current and not record.is_finished]
    question = f"{', '.join(alive)} {'is' if len(alive) == 1 else 'are'} still active. Delete?"
    if is_broad:
        several = f"{len(found)} job{'' if len(found) == 1 else 's'}: {', '.join(record.id for record in found)}"
        question = f"Delete {several}{f' ({len(alive)} still active)' if alive else ''}?"
    elif not alive:
        return
    if not click.confirm(question, err=True):
        raise Stop(exit_codes.INTERRUPTED, "nothing was deleted")


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
    """Delete the records of finished runs, in all namespaces or in the one that -n names.

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
