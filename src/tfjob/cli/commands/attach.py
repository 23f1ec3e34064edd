"""`tfjob attach`: open the live view of a job that runs in the background."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import click

from tfjob.cli.completion import JOB
from tfjob.cli.context import On, find_job, job_options, open_backend, open_cluster_backend
from tfjob.errors import InvalidRequest

TAIL = 10
"""Earlier lines of each replica that are shown first: the whole output of a long training would push them away."""


@click.command()
@click.argument("job", type=JOB)
@click.option("--plain", is_flag=True, help="Print prefixed lines instead of the live view in a terminal.")
@job_options
def attach(job: str, plain: bool, on: On, namespace: str, output: str) -> int:
    """Open the live view of a background job, as `tfjob run` shows it, until the job ends.

    The view begins with the last 10 lines of each replica. If tfjob has shown a job on a cluster before, the view
    begins with the first line that tfjob has not shown yet. The exit code is 0 if the job succeeds and 1 if it fails.
    Ctrl-C only detaches: the job keeps running, and the exit code is 130. For a finished job, prints its result.
    """
    from tfjob.cli.terminal.attach import attach as show
    from tfjob.cli.terminal.result import report_result

    opened: AbstractContextManager[Any] = open_backend(on, namespace, write=False)
    if on.cluster:
        opened = open_cluster_backend(on, namespace)
    with opened as there:
        record = find_job(there, job)
        if record.is_finished:
            return report_result(there, [record.name], [record], output)
        if not record.current:
            raise InvalidRequest(f"{record.id} was deleted or replaced by a later run, so it does not run")
        if record.state == "Suspended":
            hint = f"To continue it: tfjob resume {record.name}{record.options}"
            raise InvalidRequest(f"{record.id} does not run: it is Suspended", hint)
        if on.cluster:
            from tfjob.launch.follow import FollowedJobs

            return show(FollowedJobs(there, [record], TAIL), output, plain=plain)
        from tfjob.launch.watch import WatchedJobs

        return show(WatchedJobs(there, record, TAIL), output, plain=plain)
