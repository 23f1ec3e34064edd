"""`run --dry-run --on k8s`: every object that a cluster would get, those of the operator too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import msgspec

from tfjob.api.defaults import with_defaults
from tfjob.api.types import TFJob
from tfjob.cli.manifest_file import hidden_secret
from tfjob.kube.submission import Submission
from tfjob.plan.children import Settings, pods, service
from tfjob.plan.parameter_server import config_map, has_default_server
from tfjob.plan.tasks import desired

UID = "(given by the cluster)"


def show(submission: Submission, output: str) -> None:
    """Prints the manifest's objects, the jobs, and what the operator makes of them."""
    found = list(objects(submission))
    if output == "json":
        whole = {"apiVersion": "v1", "kind": "List", "items": found}
        click.echo(msgspec.json.format(msgspec.json.encode(whole)).decode())
        return
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    click.echo(yaml.dump_all(found, Dumper=dumper, sort_keys=False, allow_unicode=True, width=120), nl=False)


def objects(submission: Submission) -> Iterator[dict[str, Any]]:
    """Plain objects, in the order in which they are made; what a Secret holds is not shown."""
    for document in submission.objects:
        yield hidden_secret(document) if document["kind"] == "Secret" else document
    for job, manifest in zip(submission.jobs, submission.manifests, strict=True):
        yield manifest
        yield from children(with_defaults(job))


def children(job: TFJob) -> Iterator[dict[str, Any]]:
    """The services and pods of the first attempt, and the program of default parameter servers."""
    tasks = list(desired(job))
    if has_default_server(job):
        yield _plain(config_map(job))
    for task in tasks:
        yield _plain(service(job, task))
    for pod in pods(job, [(task, 1) for task in tasks], Settings()):
        yield _plain(pod)


def _plain(child: msgspec.Struct) -> dict[str, Any]:
    # Through JSON, so that parts that templates share are written out each time.
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(child))
    plain.pop("status", None)
    for owner in plain["metadata"].get("ownerReferences", ()):
        owner["uid"] = UID
    return plain
