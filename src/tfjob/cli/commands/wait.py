"""`tfjob wait`: wait until a job reaches a state."""

from __future__ import annotations

import time
from datetime import timedelta

import click

from tfjob.cli.completion import JOB
from tfjob.cli.context import On, find_job, job_options, open_backend, time_span
from tfjob.cli.output import print_job
from tfjob.errors import InvalidRequest, NotFound

LONGEST_PAUSE = 60.0


@click.command()
@click.argument("job", type=JOB)
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
def wait(job: str, wanted: str, timeout: timedelta | None, on: On, namespace: str, output: str) -> int:
    """Wait until a job reaches a state.

    The exit code is 0 if the job reached the state, 1 if it ended in another state and 4 after a timeout. With
    `finished`, the exit code is 0 if the job succeeded and 1 if it failed or is suspended.
    """
    from tfjob.cli import exit_codes
    from tfjob.cli.terminal.result import ending

    deadline = None if timeout is None else time.monotonic() + timeout.total_seconds()
    with open_backend(on, namespace, write=False) as there:
        record = find_job(there, job)
        if record.is_server and wanted not in ("running", "suspended"):
            hint = "Use --for running or --for suspended."
            raise InvalidRequest(f"{record.id} is a Deployment, which never finishes", hint)
        while True:
            now = record.state.lower()
            over = now in ("succeeded", "failed")
            if over or now == wanted or (now == "suspended" and wanted == "finished"):
                break
            left = LONGEST_PAUSE if deadline is None else deadline - time.monotonic()
            if left <= 0:
                raise exit_codes.Stop(exit_codes.TIMEOUT, f"timed out: {record.id} is {record.state}, not {wanted}")
            there.pause(record, min(left, LONGEST_PAUSE))
            found = there.refresh(record)
            if found is None:
                raise NotFound(f"{record.id} was deleted while waiting")
            (record,) = there.ensure_driven([found])
    print_job(record, output, ending(record) if over or now == "suspended" else f"{record.name} is {record.state}")
    return exit_codes.SUCCEEDED if now == (wanted if wanted != "finished" else "succeeded") else exit_codes.FAILED
