"""The jobs of a manifest come into being on a cluster; whoever interrupts that is told what became of them."""

from __future__ import annotations

import click

from tfjob.controller.console import Record
from tfjob.kube.console import KubeConsole
from tfjob.kube.submission import Interrupted, Submission, submit


def created(console: KubeConsole, submission: Submission) -> tuple[list[Record], bool]:
    """The jobs, and whether somebody interrupted it; then they are all there or none is."""
    try:
        return [console.record(job) for job in console.run(submit(console.client, submission, console.options))], False
    except Interrupted as interrupted:
        made = [console.record(job) for job in interrupted.made]
        if not made:
            _tell(submission, "was not created")
        return made, True
    except KeyboardInterrupt:  # again, before the API server had answered
        _tell(submission, "may have been created; see: tfjob status {name}" + console.options)
        raise


def tell_it_goes_on(records: list[Record]) -> None:
    """Says how to reach jobs that nobody follows any longer."""
    for record in records:
        name, options = record.name, record.options
        said = f"{name} goes on; stop it with: tfjob stop {name}{options}, see it with: tfjob logs {name} -f{options}"
        click.echo(said, err=True)


def _tell(submission: Submission, words: str) -> None:
    for job in submission.jobs:
        name = job.metadata.name
        click.echo(f"{name} {words.format(name=name)}", err=True)
