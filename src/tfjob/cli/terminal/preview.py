"""The output of `run --dry-run`: processes on this machine, objects on a cluster, or with `-o yaml` the manifest."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from tfjob.cli.output import print_document, print_list

if TYPE_CHECKING:
    from tfjob.launch.cluster import ClusterJobs
    from tfjob.launch.local import LocalJobs
    from tfjob.local.jobs.submission import Submission


def print_processes(prepared: LocalJobs, output: str) -> None:
    from tfjob.launch.local import processes

    if output == "yaml":
        click.echo(prepared.manifest(), nl=False)
        return
    found = processes(prepared)
    if output == "json":
        print_list("Process", [process for of_job in found for process in of_job], output)
        return
    texts = ("\n".join(_text(*one)) for one in zip(prepared.submissions, found, strict=True))
    click.echo("\n\n".join(texts))


def _text(submission: Submission, processes: Sequence[dict[str, Any]]) -> Iterator[str]:
    from tfjob.jobs.report import size

    options, name = submission.options, click.style(submission.owner.metadata.name, bold=True)
    replicas = f"{len(processes)} replica{'' if len(processes) == 1 else 's'}"
    yield f"{name}: {replicas}, level {options.level}, limits {options.limits}; nothing was started"
    for service in submission.services:
        ports = (f"{one['port']} -> {one.get('targetPort', one['port'])}" for one in service.spec.get("ports") or ())
        yield f"\n{click.style(f'service {service.metadata.name}', bold=True)}  {', '.join(ports)}"
    for process in processes:
        yield f"\n{click.style(process['replica'], bold=True)}  listens at {process['listens']}"
        for container in process["containers"]:
            yield f"  {container['name']}{' (init)' if container['init'] else ''}"
            yield f"    command  {shlex.join(container['argv'])}"
            yield f"    folder   {container['workingDir']}"
            for mount in container["mounts"]:
                mode = " (read-only)" if mount["readOnly"] else ""
                yield f"    mount    {mount['target']} <- {mount['source']}{mode}"
            if process["passed"]:
                yield f"    passed   {', '.join(process['passed'])}"
            for variable, value in container["env"].items():
                yield f"    env      {variable}={value}"
            limits = [f"cpu {container['cpu']:g}"] if container["cpu"] else []
            limits += [f"memory {size(container['memory'])}"] if container["memory"] else []
            if limits:
                yield f"    limits   {', '.join(limits)}"


def print_objects(prepared: ClusterJobs, output: str) -> None:
    from tfjob.launch.cluster import UNDRAWN, preview

    if output == "yaml":
        click.echo(prepared.manifest(), nl=False)
        return
    if prepared.unanswered is not None:
        assumed = "this preview assumes that the cluster serves TfJobs of tensorflow.org"
        click.echo(f"{assumed}, because it did not answer: {prepared.unanswered}", err=True)
    if prepared.sent:
        click.echo("\n  ".join([f"would send {prepared.sent} to the cluster:", *prepared.files]), err=True)
    found = preview(prepared)
    for name in found.undrawn:
        click.echo(f"{name}: {UNDRAWN} is a placeholder for the RuntimeId, which the operator chooses", err=True)
    if output == "json":
        print_document({"apiVersion": "v1", "kind": "List", "items": found.objects}, output)
    else:
        click.echo(found.yaml(), nl=False)
