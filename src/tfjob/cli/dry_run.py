"""`run --dry-run`: what would start, in full: processes, TF_CONFIG, mounts, ports."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from tfjob.api.objects import Pod
from tfjob.cli.shapes import print_list
from tfjob.controller.cluster import Key
from tfjob.local.assembly import Assembled, assemble
from tfjob.local.home import Home
from tfjob.local.machine import machine_with
from tfjob.local.network import planned
from tfjob.local.references import References
from tfjob.local.runs import Submission
from tfjob.local.secrets import Secrets
from tfjob.local.store import Store
from tfjob.plan.children import Settings, pod
from tfjob.plan.tasks import Task, desired
from tfjob.plan.tf_config import port


def show(home: Home, store: Store, submissions: Sequence[Submission], output: str) -> None:
    """Prints every process that the jobs would start."""
    shapes = [shape for submission in submissions for shape in _processes(home, store, submission)]
    if output == "json":
        print_list("Process", shapes)
        return
    for submission in submissions:
        options = submission.options
        click.echo(
            f"{submission.job.metadata.name}: level {options.level}, limits {options.limits}; nothing was started"
        )
    for shape in shapes:
        click.echo(f"\n{click.style(shape['replica'], bold=True)}  {shape['address']}")
        for container in shape["containers"]:
            click.echo(f"  {container['name']}: {' '.join(container['argv'])}")
            click.echo(f"    in {container['workingDir']}")
            for mount in container["mounts"]:
                mode = " (read-only)" if mount["readOnly"] else ""
                click.echo(f"    {mount['target']} <- {mount['source']}{mode}")
            for name, value in container["env"].items():
                click.echo(f"    {name}={value}")


def _processes(home: Home, store: Store, submission: Submission) -> list[dict[str, Any]]:
    job = submission.job
    network = planned(job, submission.options.level)
    machine = machine_with(home, submission.options, _references(home, store, submission))
    shapes = []
    for task in desired(job):
        child = pod(job, task, 1, Settings())
        address = next(peer.ip for peer in network if peer.name == child.metadata.name)
        child = replace(child, status=replace(child.status, pod_ip=address))
        folder = Path("(pod folder)")
        ready = assemble(
            child, folder, machine, network, hosts=folder / "hosts", lifeline=None, now=datetime.now(UTC), dry_run=True
        )
        shapes.append(_shape(task, child, f"{address}:{port(job, task.type)}", ready))
    return shapes


def _references(home: Home, store: Store, submission: Submission) -> References:
    """What the manifest brings along, then what earlier manifests left."""
    brought = {(document["kind"], document["metadata"]["name"]): document for document in submission.objects}
    namespace, secrets = submission.job.metadata.namespace, Secrets(home.secrets)
    return References(
        config_map=lambda name: brought.get(("ConfigMap", name)) or store.object("ConfigMap", Key(namespace, name)),
        secret=lambda name: brought.get(("Secret", name)) or secrets.get(Key(namespace, name)),
    )


def _shape(task: Task, child: Pod, address: str, ready: Assembled) -> dict[str, Any]:
    declared = {
        container["name"]: [variable["name"] for variable in container.get("env") or ()]
        for container in (*child.spec.get("initContainers", ()), *child.spec["containers"])
    }
    return {
        "replica": task.name,
        "pod": child.metadata.name,
        "address": address,
        "restartPolicy": child.spec["restartPolicy"],
        "containers": [
            {
                "name": spec["name"],
                "argv": spec["argv"],
                "workingDir": spec["cwd"],
                "mounts": spec["mounts"],
                "env": {
                    name: value
                    for name, value in ready.shown_env[spec["name"]].items()
                    if name in declared[spec["name"]]
                },
                "memory": spec["memory"],
                "cpu": spec["cpu"],
            }
            for spec in (*ready.spec["initContainers"], *ready.spec["containers"])
        ],
    }
