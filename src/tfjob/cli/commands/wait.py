"""`tfjob wait`: wait until jobs reach a state."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from tfjob.cli.context import On, job_options, open_backend, time_span
from tfjob.cli.selection import Results, is_active, jobs_argument, names_several, select_jobs
from tfjob.errors import InvalidRequest, NotFound

if TYPE_CHECKING:
    from tfjob.jobs.backend import Record

LONGEST_PAUSE = 60.0


@click.command()
@jobs_argument("Wait for all active jobs of the namespace.")
@click.option(
    "--for",
    "wanted",
    type=click.Choice(["finished", "running", "succeeded", "failed", "suspended"]),
    default="finished",
    show_default=True,
    help="State to wait for.",
)
@click.option("--timeout", type=time_span, metavar="DURATION", help="Give up after this time, such as 90s or 5m.")
@job_options
def wait(
    jobs: tuple[str, ...],
    every: bool,
    wanted: str,
    timeout: timedelta | None,
    on: On,
    namespace: str,
    output: str,
) -> int:
    """Wait until jobs reach a state.

    The exit code is 0 if the job reached the state, 1 if it ended in another state and 4 after a timeout. With
    `finished`, the exit code is 0 if the job succeeded and 1 if it failed or is suspended.

    JOB is a name, a unique prefix, or a quoted pattern of names ('mnist-*'). `wait` waits for all selected jobs, and
    the exit code is the highest of these jobs.
    """
    from tfjob.cli import exit_codes

    deadline = None if timeout is None else time.monotonic() + timeout.total_seconds()
    with open_backend(on, namespace, write=False) as there:
        pending = select_jobs(
            there, jobs, every=every, suits=lambda one: _can_reach(one, wanted) and (not every or is_active(one))
        )
        for record in pending:
            if not _can_reach(record, wanted):
                hint = "Use --for running or --for suspended."
                raise InvalidRequest(f"{record.id} is a Deployment, which never finishes", hint)
        results = Results(pending, output, is_list=names_several(jobs))
        while pending:
            left = LONGEST_PAUSE if deadline is None else deadline - time.monotonic()
            waiting = []
            for record in pending:
                with results.of(record):
                    if _is_over(record, wanted):
                        results.add(record, *_result(record, wanted))
                    elif left <= 0:
                        text = f"timed out: {record.id} is {record.state}, not {wanted}"
                        raise exit_codes.Stop(exit_codes.TIMEOUT, text)
                    else:
                        waiting.append(record)
            if waiting:
                there.pause(waiting, min(left, LONGEST_PAUSE))
            pending = []
            for record in waiting:
                with results.of(record):
                    found = there.refresh(record)
                    if found is None:
                        raise NotFound(f"{record.id} was deleted while waiting")
                    pending += there.ensure_driven([found])
        return results.report(f"no job is active in namespace '{there.namespace}'")


def _can_reach(record: Record, wanted: str) -> bool:
    return not record.is_server or wanted in ("running", "suspended")


def _is_over(record: Record, wanted: str) -> bool:
    now = record.state.lower()
    return now in ("succeeded", "failed", wanted) or (now == "suspended" and wanted == "finished")


def _result(record: Record, wanted: str) -> tuple[str, int]:
    """Return the last line about a job, and its exit code."""
    from tfjob.cli import exit_codes
    from tfjob.cli.terminal.result import ending

    now = record.state.lower()
    text = ending(record) if now in ("succeeded", "failed", "suspended") else f"{record.name} is {record.state}"
    is_reached = now == (wanted if wanted != "finished" else "succeeded")
    return text, exit_codes.SUCCEEDED if is_reached else exit_codes.FAILED
