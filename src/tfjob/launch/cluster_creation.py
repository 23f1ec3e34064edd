"""Create a manifest's jobs on a cluster; if interrupted, report which ones exist."""

from __future__ import annotations

import click

from tfjob.jobs.backend import Record
from tfjob.kube.jobs.backend import SyncKubeBackend
from tfjob.kube.submit.submission import Interrupted, Submission, submit


def create_jobs(backend: SyncKubeBackend, submission: Submission) -> tuple[list[Record], bool]:
    """The jobs, and whether somebody interrupted it; then they are all there or none is."""
    try:
        made = backend.run(submit(backend.client, submission, backend.options_for))
        return [backend.record(job) for job in made], False
    except Interrupted as interrupted:
        left = [backend.record(job) for job in interrupted.made]
        for job in submission.jobs if not left else ():
            click.echo(f"{job.metadata.name} was not created", err=True)
        return left, True
    except KeyboardInterrupt:  # again, before the API server had answered
        for job in submission.jobs:
            command = f"tfjob status {job.metadata.name}{backend.options_for(job.metadata.namespace)}"
            click.echo(f"{job.metadata.name} may have been created; see: {command}", err=True)
        raise


def report_detached(records: list[Record]) -> None:
    """Says how to reach jobs that nobody follows any longer."""
    for record in records:
        name, options = record.name, record.options
        said = f"{name} goes on; stop it with: tfjob stop {name}{options}, see it with: tfjob logs {name} -f{options}"
        click.echo(said, err=True)
