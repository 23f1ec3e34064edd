"""`tfjob events`: list the events of a job."""

from __future__ import annotations

import click

from tfjob.cli.completion import JOB
from tfjob.cli.context import On, find_job, job_options, open_backend
from tfjob.cli.output import print_list


@click.command()
@click.argument("job", type=JOB)
@job_options
def events(job: str, on: On, namespace: str, output: str) -> None:
    """List the events of a job, the oldest first."""
    from tfjob.jobs.output import event_shape
    from tfjob.jobs.report import clock, table

    with open_backend(on, namespace, write=False) as there:
        found = there.events(find_job(there, job))
    if output != "text":
        print_list("Event", [event_shape(event) for event in found], output)
        return
    rows = []
    for event in found:
        text = event.message.replace("\n", " ") + (f" (x{event.count})" if event.count > 1 else "")
        rows.append([clock(event.time), "Warning" if event.warning else "Normal", event.reason, text])
    click.echo(table(["TIME", "TYPE", "REASON", "MESSAGE"], rows) if rows else "no events")
