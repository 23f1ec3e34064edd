"""Jobs for a cluster: prepare them, preview their objects, and submit all jobs of a manifest or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from tfjob.api.conversion import canonical_type
from tfjob.api.dialect import origin
from tfjob.api.manifest.loader import DEPLOYMENT, Manifest
from tfjob.api.objects import Object, Pod
from tfjob.api.problems import Problem
from tfjob.api.text.writer import plain_yaml
from tfjob.api.types import API_VERSION, RUNTIME_ID, TFJob
from tfjob.api.versions.registry import to_version
from tfjob.errors import InvalidRequest
from tfjob.jobs.backend import Record
from tfjob.kube.access import config
from tfjob.kube.access.errors import KubeError
from tfjob.kube.cluster.tensorflow_org import TensorFlowOrgStorage
from tfjob.kube.jobs.backend import SyncKubeBackend
from tfjob.kube.jobs.jobs import read_job
from tfjob.kube.submit import submission
from tfjob.kube.submit.preflight import Preflight, object_problems
from tfjob.kube.submit.submission import Submission, as_kept, as_kept_in_own_kind
from tfjob.launch.delivery import Sender
from tfjob.launch.prepare import Prepared, check, first_children, with_namespace
from tfjob.launch.request import Request, has_valid_syntax, manifest_text, read_request, without_contents
from tfjob.launch.target import open_cluster
from tfjob.plan.build.settings import Settings

ONLY_LOCAL = {
    "python": "--python",
    "volumes": "--volume",
    "level": "--level",
    "no_limits": "--no-limits",
    "cpu": "--cpu",
    "share_storage": "--share-storage",
}
"""The fields of a request that only apply to this machine, in addition to `warm`."""
UID = "(set by the cluster)"
UNDRAWN = "xxxx"
"""A placeholder for a TfJob's RuntimeId, which the operator chooses; it is part of names, so it must be valid there."""


@dataclass(frozen=True, kw_only=True)
class ClusterJobs(Prepared):
    """Jobs for a cluster; `sent` describes the files of this machine that go with them, and `files` lists them.

    `unanswered` is set if the cluster could not be asked whether it serves TfJobs of tensorflow.org. The manifests then
    assume that it does, and cannot be submitted.
    """

    submission: Submission
    unanswered: KubeError | None = None
    sent: str = ""
    files: Sequence[str] = ()


def prepare(request: Request) -> ClusterJobs:
    _refuse_local_options(request)
    data, manifest = read_request(request)
    warnings = check([*manifest.problems, *_syntax_problems(request)])
    default = config.load(request.target.context or None).namespace
    jobs = [with_namespace(entry, _canonical(entry.written), request.namespace, default) for entry in manifest.entries]
    sender = _sender(request)
    deliveries = [sender.delivery(job) for job in jobs]
    manifests, unanswered = _kept(request, [delivery.job for delivery in deliveries])
    return ClusterJobs(
        manifest=partial(manifest_text, request, data, manifest),
        warnings=[*warnings, *sender.warnings()],
        submission=Submission(
            manifests,
            manifest.objects,
            jobs[0].metadata.namespace if jobs else request.namespace or default,
            [delivery.config_maps for delivery in deliveries],
        ),
        unanswered=unanswered,
        sent=sender.summary(),
        files=sender.listing(),
    )


def _sender(request: Request) -> Sender:
    return Sender(request.folder, is_program=request.is_program, in_image=request.script.in_image)


def _syntax_problems(request: Request) -> list[Problem]:
    if has_valid_syntax(request):
        return []
    from tfjob.launch.program import syntax_problems

    return syntax_problems(request)


def _refuse_local_options(request: Request) -> None:
    given = [option for name, option in ONLY_LOCAL.items() if getattr(request, name)]
    if request.warm is not None:
        given.append("--warm" if request.warm else "--cold")
    if given:
        raise InvalidRequest(f"{given[0]} only applies to this machine, not to a cluster", "Leave it out.")


def _kept(request: Request, jobs: Sequence[TFJob]) -> tuple[list[dict[str, Any]], KubeError | None]:
    """Return the jobs in the versions that the cluster serves; ask it only if a job was written for tensorflow.org."""
    manifests = [to_version(job, API_VERSION)[0] for job in jobs]
    if not any(origin(job).wraps_pods for job in jobs):
        return manifests, None
    try:
        with open_cluster(request.target, request.namespace) as backend:
            return [backend.run(as_kept(backend.client, manifest)) for manifest in manifests], None
    except KubeError as error:
        return [as_kept_in_own_kind(manifest) for manifest in manifests], error


def _canonical(job: TFJob) -> TFJob:
    specs = {canonical_type(name): spec for name, spec in job.spec.tf_replica_specs.items()}
    return replace(job, spec=replace(job.spec, tf_replica_specs=specs))


def problems(request: Request, manifest: Manifest) -> list[Problem]:
    """Return the problems that the cluster finds in a dry run, with their places in the file."""
    _refuse_local_options(request)
    found: list[Problem] = []
    sender = _sender(request)
    with open_cluster(request.target, request.namespace) as backend:
        for entry in manifest.entries:
            job = with_namespace(entry, _canonical(entry.written), request.namespace, backend.namespace)
            try:
                delivery = sender.delivery(job)
            except InvalidRequest as error:
                found.append(entry.located(Problem("", error.message, error.hint)))
                continue
            preflight = Preflight(backend.client, delivery.job, [*manifest.objects, *delivery.config_maps])
            found += map(entry.located, backend.run(preflight.problems()))
        for part, document in zip(manifest.object_parts, manifest.objects, strict=True):
            refused = backend.run(object_problems(backend.client, document, backend.namespace))
            found += map(part.located, refused)
    return [*found, *sender.warnings()]


# --- a dry run --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Preview:
    """All objects of the jobs; the jobs in `undrawn` have placeholders as RuntimeIds."""

    objects: Sequence[dict[str, Any]]
    undrawn: Sequence[str]

    def yaml(self) -> str:
        return plain_yaml(self.objects)


def preview(prepared: ClusterJobs) -> Preview:
    objects, undrawn = without_contents(prepared.submission.objects), []
    for manifest, config_maps in zip(prepared.submission.manifests, prepared.submission.config_maps, strict=True):
        job = _as_read(manifest)
        if job.status.runtime_id == UNDRAWN:
            undrawn.append(job.metadata.name)
        sent = (submission.owned(one, manifest, UID) for one in config_maps)
        objects += [manifest, *sent, *map(_plain, children(job))]
    return Preview(objects, undrawn)


def children(job: TFJob) -> list[Object]:
    wrapped = origin(job).wraps_pods
    made = first_children(job, Settings())
    return [TensorFlowOrgStorage.wrap(child) if wrapped and isinstance(child, Pod) else child for child in made]


def _as_read(manifest: dict[str, Any]) -> TFJob:
    job = read_job(manifest["kind"], msgspec.json.encode(manifest))
    if not origin(job).has_runtime_id or job.metadata.annotations.get(RUNTIME_ID):
        return job
    return replace(job, status=replace(job.status, runtime_id=UNDRAWN))


def _plain(child: Object) -> dict[str, Any]:
    # Through JSON, so that parts that templates share do not become YAML aliases.
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(child))
    plain.pop("status", None)
    for owner in plain["metadata"].get("ownerReferences", ()):
        owner["uid"] = UID
    return plain


# --- submission -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What a submission created; `servers` are Deployments, which the cluster's controller runs.

    After an interruption, either all jobs exist or none (`missing`), or the API server has not answered and it is
    unknown whether they exist (`unknown`).
    """

    records: list[Record] = field(default_factory=list)
    servers: Sequence[str] = ()
    interrupted: bool = False
    missing: Sequence[dict[str, Any]] = ()
    unknown: Sequence[dict[str, Any]] = ()


def submit(backend: SyncKubeBackend, prepared: ClusterJobs) -> Outcome:
    """Create the objects and jobs; an interruption does not undo requests that the API server is processing."""
    if prepared.unanswered is not None:
        raise prepared.unanswered
    manifests = prepared.submission.manifests
    try:
        made = backend.run(submission.submit(backend.client, prepared.submission))
        servers = [one["metadata"]["name"] for one in prepared.submission.objects if one["kind"] == DEPLOYMENT]
        return Outcome([backend.record(job) for job in made], servers)
    except submission.Interrupted as interrupted:
        records = [backend.record(job) for job in interrupted.made]
        return Outcome(records, interrupted=True, missing=() if records else manifests)
    except KeyboardInterrupt:  # a second one, before the API server had answered
        return Outcome(interrupted=True, unknown=manifests)
