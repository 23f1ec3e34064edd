"""`tfjob wait`: for scripts."""

from __future__ import annotations

import time
from datetime import timedelta

import click

from tfjob.cli.context import find_run, namespace_option, output_option, state
from tfjob.cli.durations import time_span

POLL_SECONDS = 0.1


@click.command()
@click.argument("job")
@click.option(
    "--for",
    "wanted",
    type=click.Choice(["finished", "running", "succeeded", "failed", "suspended"]),
    default="finished",
    show_default=True,
    help="The state to wait for.",
)
@click.option("--timeout", callback=time_span, metavar="SPAN", help="Give up after so long (90s, 5m), exit code 4.")
@namespace_option
@output_option
def wait(job: str, wanted: str, timeout: timedelta | None, namespace: str, output: str) -> int:
    """Wait until a job reaches a state.

    The exit code is 0 when it did, 1 when it ended otherwise, 4 when the time ran out. `finished` means that it
    succeeded (0) or failed (1).
    """
    from tfjob.cli import outcome
    from tfjob.cli.report import ending
    from tfjob.cli.shapes import print_json, run_shape, shown_state

    deadline = None if timeout is None else time.monotonic() + timeout.total_seconds()
    with state(write=False) as (home, store):
        run = find_run(home, store, job, namespace)
        while True:
            now = shown_state(run)[0].lower()
            over = now in ("succeeded", "failed")
            if over or now == wanted or (now == "suspended" and wanted == "finished"):
                break
            if deadline is not None and time.monotonic() >= deadline:
                raise outcome.Stop(outcome.TIMEOUT, f"{run.id} is still {shown_state(run)[0]}, not {wanted}")
            time.sleep(POLL_SECONDS)
            run = find_run(home, store, run.id, namespace)
    if output == "json":
        print_json("Job", run_shape(run))
    elif over or now == "suspended":
        click.echo(ending(run))
    else:
        click.echo(f"{run.job.metadata.name} is {shown_state(run)[0]}")
    return outcome.SUCCEEDED if now == (wanted if wanted != "finished" else "succeeded") else outcome.FAILED
