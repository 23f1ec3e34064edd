"""`run --dry-run`: what would start, in full: processes, TF_CONFIG, mounts, ports."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec.structs import replace

from tfjob.api.objects import Pod
from tfjob.jobs.output import print_list
from tfjob.jobs.report import size
from tfjob.local.inputs.references import brought
from tfjob.local.pod.assembly import Assembled, assemble
from tfjob.local.pod.machine import kept_references, machine_with
from tfjob.local.pod.network import Peer, planned
from tfjob.local.run.submission import Submission
from tfjob.local.state.home import Home
from tfjob.local.state.store import Store
from tfjob.local.volumes.job_storage import SETTINGS
from tfjob.plan.build.parameter_server import config_map, has_default_server
from tfjob.plan.build.pods import pod
from tfjob.plan.facts.tasks import Task, desired
from tfjob.plan.facts.tf_config import port

POD_FOLDER = Path("(pod folder)")


def show(home: Home, store: Store, submissions: Sequence[Submission], output: str) -> None:
    """Prints every process that the jobs would start; what comes from a Secret is not shown."""
    found = [(submission, _processes(home, store, submission)) for submission in submissions]
    if output != "text":
        print_list("Process", [shape for _, shapes in found for shape in shapes], output)
        return
    click.echo("\n\n".join("\n".join(_text(submission, shapes)) for submission, shapes in found))


def _text(submission: Submission, shapes: Sequence[dict[str, Any]]) -> Iterator[str]:
    options, name = submission.options, click.style(submission.job.metadata.name, bold=True)
    replicas = f"{len(shapes)} replica{'' if len(shapes) == 1 else 's'}"
    yield f"{name}: {replicas}, level {options.level}, limits {options.limits}; nothing was started"
    for shape in shapes:
        yield f"\n{click.style(shape['replica'], bold=True)}  listens at {shape['listens']}"
        for container in shape["containers"]:
            yield f"  {container['name']}{' (init)' if container['init'] else ''}"
            yield f"    command  {shlex.join(container['argv'])}"
            yield f"    folder   {container['workingDir']}"
            for mount in container["mounts"]:
                mode = " (read-only)" if mount["readOnly"] else ""
                yield f"    mount    {mount['target']} <- {mount['source']}{mode}"
            for variable, value in container["env"].items():
                yield f"    env      {variable}={value}"
            limits = [f"cpu {container['cpu']:g}"] if container["cpu"] else []
            limits += [f"memory {size(container['memory'])}"] if container["memory"] else []
            if limits:
                yield f"    limits   {', '.join(limits)}"


def _processes(home: Home, store: Store, submission: Submission) -> list[dict[str, Any]]:
    job = submission.job
    network = planned(job, submission.options.level)
    namespace = job.metadata.namespace
    made = [msgspec.to_builtins(config_map(job))] if has_default_server(job) else []
    references = brought([*submission.objects, *made], namespace, kept_references(home, store, namespace))
    machine = machine_with(home, submission.options, references)
    shapes = []
    for task in desired(job):
        child = pod(job, task, 1, SETTINGS)
        peer = next(peer for peer in network if peer.name == child.metadata.name)
        child = replace(child, status=replace(child.status, pod_ip=peer.ip))
        ready = assemble(
            child,
            POD_FOLDER,
            machine,
            network,
            hosts=POD_FOLDER / "hosts",
            lifeline=None,
            now=datetime.now(UTC),
            dry_run=True,
        )
        listens = _listens(peer, port(job, task.type), submission.options.level)
        shapes.append(_shape(job.metadata.name, task, child, listens, ready))
    return shapes


def _listens(peer: Peer, number: int, level: str) -> str:
    """How the other replicas reach this one; addresses and ports of the reduced levels are chosen at the start."""
    if level == "full":
        return f"{peer.name}.{peer.namespace}.svc:{number}"
    return f"{peer.ip}:{peer.ports.get(number, number)}"


def _shape(job: str, task: Task, child: Pod, listens: str, ready: Assembled) -> dict[str, Any]:
    """A replica: `argv` and `env` as its processes get them, but for Secrets."""
    containers = [(spec, True) for spec in ready.spec["initContainers"]]
    containers += [(spec, False) for spec in ready.spec["containers"]]
    return {
        "job": job,
        "replica": task.name,
        "pod": child.metadata.name,
        "listens": listens,
        "restartPolicy": child.spec["restartPolicy"],
        "containers": [
            {
                "name": spec["name"],
                "init": init,
                "argv": spec["argv"],
                "workingDir": spec["cwd"],
                "mounts": spec["mounts"],
                "env": ready.shown_env[spec["name"]],
                "memory": spec["memory"],
                "cpu": spec["cpu"],
            }
            for spec, init in containers
        ],
    }
