"""`run --dry-run --on k8s`: every object that a cluster would get, those of the operator too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click
import msgspec
from msgspec.structs import replace

from tfjob.api.dialect import origin
from tfjob.api.objects import Object
from tfjob.api.types import RUNTIME_ID, TFJob
from tfjob.kube.cluster.tensorflow_org import wrapper
from tfjob.kube.jobs.jobs import read_job
from tfjob.launch.manifest_file import without_contents
from tfjob.plan.build import tensorboard
from tfjob.plan.build.parameter_server import config_map, has_default_server
from tfjob.plan.build.pods import Settings, pods, service
from tfjob.plan.facts.tasks import desired

UID = "(given by the cluster)"
UNDRAWN = "xxxx"
"""In place of a TfJob's RuntimeId, which the operator draws; names are made of it, so it has the shape of one."""


def show(beside: Sequence[dict[str, Any]], manifests: Sequence[dict[str, Any]], output: str) -> None:
    """Prints the manifest's objects, the jobs as the cluster keeps them, and what the operator makes of them."""
    jobs = [as_read(manifest) for manifest in manifests]
    for name in (job.metadata.name for job in jobs if job.status.runtime_id == UNDRAWN):
        click.echo(f"{name}: {UNDRAWN} stands for its RuntimeId, which the operator draws", err=True)
    found = list(objects(beside, manifests, jobs))
    if output == "json":
        whole = {"apiVersion": "v1", "kind": "List", "items": found}
        click.echo(msgspec.json.format(msgspec.json.encode(whole)).decode())
        return
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    click.echo(yaml.dump_all(found, Dumper=dumper, sort_keys=False, allow_unicode=True, width=120), nl=False)


def as_read(manifest: dict[str, Any]) -> TFJob:
    """The job as the operator reads it; a TfJob that asks for no id of its own with a stand-in for it."""
    job = read_job(manifest["kind"], msgspec.json.encode(manifest))
    if not origin(job).has_runtime_id or job.metadata.annotations.get(RUNTIME_ID):
        return job
    return replace(job, status=replace(job.status, runtime_id=UNDRAWN))


def objects(
    beside: Sequence[dict[str, Any]], manifests: Sequence[dict[str, Any]], jobs: Sequence[TFJob]
) -> Iterator[dict[str, Any]]:
    """Plain objects, in the order in which they are made; what a Secret holds is not shown."""
    yield from without_contents(beside)
    for job, manifest in zip(jobs, manifests, strict=True):
        yield manifest
        yield from map(_plain, children(job))


def children(job: TFJob) -> Iterator[Object]:
    """What an operator with its default settings makes of a job in the first attempt."""
    settings = Settings()
    tasks = list(desired(job))
    if has_default_server(job):
        yield config_map(job)
    for task in tasks:
        yield service(job, task)
    for pod in pods(job, [(task, 1) for task in tasks], settings):
        yield wrapper(pod) if origin(job).wraps_pods else pod
    if job.spec.tensor_board is not None:
        yield tensorboard.deployment(job, settings)
        yield tensorboard.service(job)


def _plain(child: Object) -> dict[str, Any]:
    # Through JSON, so that parts that templates share are written out each time.
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(child))
    plain.pop("status", None)
    for owner in plain["metadata"].get("ownerReferences", ()):
        owner["uid"] = UID
    return plain
