"""The end of an attached run: its last words and its exit code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from tfjob.cli import exit_codes
from tfjob.jobs.backend import Record
from tfjob.jobs.sync_backend import SyncBackend
from tfjob.plan.facts.conditions import is_finished


def report_result(
    there: SyncBackend[Any],
    started: Sequence[str],
    records: Sequence[Record],
    output: str,
    *,
    width: int | None = None,
) -> int:
    """Print how an attached run ended, and return its exit code; `started` are the names of its jobs.

    In a terminal of a known `width` it also says where the files are and what to type next.
    """
    from tfjob.jobs.output import job_shape, print_list
    from tfjob.jobs.report import ending, guidance

    if output != "text":
        print_list("Job", [job_shape(record) for record in records], output)
    else:
        for record in records:
            click.echo(ending(record))
        for name in started:
            if name not in {record.name for record in records}:
                click.echo(f"{name} was deleted")
        if width is not None:
            for record in records:
                click.echo(guidance(record, there.storage(record), width))
    if not all(is_finished(record.job.status) for record in records):
        return exit_codes.INTERRUPTED
    succeeded = all(record.state == "Succeeded" for record in records) and len(records) == len(started)
    return exit_codes.SUCCEEDED if succeeded else exit_codes.FAILED
