"""`doctor --on k8s`: whether a cluster runs jobs, and what we may do there."""

from __future__ import annotations

import dataclasses

import click

from tfjob.cli import exit_codes
from tfjob.cli.context import On, cluster_console
from tfjob.jobs.output import print_object
from tfjob.operator.install.cluster_checks import examine


def examine_cluster(on: On, namespace: str, output: str) -> int:
    """Prints what was found; the exit code is 1 if something is not as it should be."""
    with cluster_console(on, namespace) as console:
        findings = console.run(examine(console.client, console.namespace))
        access = console.client.access
    well = all(finding.ok for finding in findings)
    if output != "text":
        content = {
            "context": access.context,
            "server": access.server,
            "namespace": console.namespace,
            "findings": [dataclasses.asdict(finding) for finding in findings],
        }
        print_object("ClusterDoctor", content, output)
        return exit_codes.SUCCEEDED if well else exit_codes.FAILED
    for finding in findings:
        mark = click.style("ok", fg="green") if finding.ok else click.style("no", fg="yellow")
        click.echo(f"  {mark}  {finding.title}" + ("" if finding.ok else f": {finding.problem}"))
        if not finding.ok and finding.fix:
            click.echo(f"      {finding.fix}")
    click.echo(f"\nnamespace {console.namespace}")
    return exit_codes.SUCCEEDED if well else exit_codes.FAILED
