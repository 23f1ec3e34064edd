"""`doctor --on k8s`: whether a cluster runs jobs, and what we may do there."""

from __future__ import annotations

import dataclasses

import click

from tfjob.cli import exit_codes
from tfjob.cli.context import On, open_cluster_backend
from tfjob.jobs.output import print_object
from tfjob.operator.install.cluster_checks import examine


def examine_cluster(on: On, namespace: str, output: str) -> int:
    """Prints what was found; the exit code is 1 if something is not as it should be."""
    with open_cluster_backend(on, namespace) as backend:
        findings = backend.run(examine(backend.client, backend.namespace))
        access = backend.client.access
    well = all(finding.ok for finding in findings)
    if output != "text":
        content = {
            "context": access.context,
            "server": access.server,
            "namespace": backend.namespace,
            "findings": [dataclasses.asdict(finding) for finding in findings],
        }
        print_object("ClusterDoctor", content, output)
        return exit_codes.SUCCEEDED if well else exit_codes.FAILED
    for finding in findings:
        mark = click.style("ok", fg="green") if finding.ok else click.style("no", fg="yellow")
        click.echo(f"  {mark}  {finding.title}" + ("" if finding.ok else f": {finding.problem}"))
        if not finding.ok and finding.fix:
            click.echo(f"      {finding.fix}")
    click.echo(f"\nnamespace {backend.namespace}")
    return exit_codes.SUCCEEDED if well else exit_codes.FAILED
