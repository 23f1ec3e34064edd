"""The jobs of a manifest come into being on a cluster; whoever interrupts that is told what became of them."""

from __future__ import annotations

import click

from tfjob.jobs.backend import Record
from tfjob.kube.jobs.backend import KubeConsole
from tfjob.kube.submit.submission import Interrupted, Submission, submit


def created(console: KubeConsole, submission: Submission) -> tuple[list[Record], bool]:
    """The jobs, and whether somebody interrupted it; then they are all there or none is."""
    try:
        made = console.run(submit(console.client, submission, console.options_for))
        return [console.record(job) for job in made], False
    except Interrupted as interrupted:
        left = [console.record(job) for job in interrupted.made]
        for job in submission.jobs if not left else ():
            click.echo(f"{job.metadata.name} was not created", err=True)
        return left, True
    except KeyboardInterrupt:  # again, before the API server had answered
        for job in submission.jobs:
            command = f"tfjob status {job.metadata.name}{console.options_for(job.metadata.namespace)}"
            click.echo(f"{job.metadata.name} may have been created; see: {command}", err=True)
        raise


def tell_it_goes_on(records: list[Record]) -> None:
    """Says how to reach jobs that nobody follows any longer."""
    for record in records:
        name, options = record.name, record.options
        said = f"{name} goes on; stop it with: tfjob stop {name}{options}, see it with: tfjob logs {name} -f{options}"
        click.echo(said, err=True)
