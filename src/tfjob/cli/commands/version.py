"""`tfjob version`: show the versions of tfjob and of the components of a cluster."""

from __future__ import annotations

import platform

import click

from tfjob import __version__
from tfjob.cli.context import On, on_option, open_cluster_backend, output_option
from tfjob.cli.output import print_object

NOWHERE = {"kubernetes": "", "oldest": "", "crd": "", "operator": "", "skew": ""}


@click.command()
@on_option
@output_option
def version(on: On, output: str) -> None:
    """Show the version of tfjob and, with --on k8s, of Kubernetes, the CRD and the operator."""
    shape = {"tfjob": __version__, "python": platform.python_version(), **(_of_cluster(on) if on.cluster else NOWHERE)}
    if output != "text":
        print_object("Version", shape, output)
        return
    rows = {"tfjob": shape["tfjob"], "Python": shape["python"]}
    if on.cluster:
        rows["Kubernetes"] = f"{shape['kubernetes']} ({shape['oldest']} or later is supported)"
        rows["CRD"] = shape["crd"] or "unknown"
        rows["operator"] = shape["operator"] or "none visible to you"
    width = max(map(len, rows))
    for name, text in rows.items():
        click.echo(f"{name:<{width}}  {text}")
    if shape["skew"]:
        click.echo(f"{click.style('!', fg='yellow')} {shape['skew']}")


def _of_cluster(on: On) -> dict[str, str]:
    from tfjob.operator.install.cluster_checks import versions

    with open_cluster_backend(on, "") as backend:
        found = backend.run(versions(backend.client))
    images = ", ".join(f"{one.image} ({one.ready}/{one.replicas} in {one.namespace})" for one in found.operators)
    versions_there = {"kubernetes": str(found.server), "oldest": found.oldest, "crd": found.crd}
    return {**versions_there, "operator": images, "skew": found.skew}
