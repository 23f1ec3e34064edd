"""Objects as the caches keep them: only what a decision reads, so that thousands of them fit in little memory."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
from msgspec.structs import replace

from tfjob.api.defaults import with_defaults
from tfjob.api.dialect import TENSORFLOW, TF_JOB
from tfjob.api.objects import (
    LAST_APPLIED,
    AnyChild,
    ConfigMap,
    Deployment,
    DeploymentStatus,
    Job,
    JobStatus,
    Model,
    ObjectMeta,
    Pod,
    PodGroup,
    PodStatus,
    Service,
)
from tfjob.api.problems import Problem, errors
from tfjob.api.types import API_VERSION, KIND, ORIGIN, Condition, RunPolicy, TFJob, TFJobSpec, TFJobStatus
from tfjob.api.versions import v1
from tfjob.api.versions.registry import judge
from tfjob.api.versions.round_trip import converted
from tfjob.controller.cluster import InvalidJob, Key
from tfjob.kube.client.shallow import decoded

UNREAD_ANNOTATIONS = (LAST_APPLIED,)
"""As long as the object itself, and nobody here reads them."""


MISSHAPEN = (msgspec.ValidationError, AttributeError, KeyError, TypeError, ValueError)
"""What a spec raises that has other types than its schema says."""


class CachedJob(msgspec.Struct, frozen=True):
    """A job whose spec and status stay encoded: most jobs of a cluster are finished and are never looked at again."""

    metadata: ObjectMeta
    spec: bytes
    status: bytes
    kind: str = KIND

    @property
    def key(self) -> Key:
        """Which job this is."""
        return Key(self.metadata.namespace, self.metadata.name, self.kind)


class Node(Model, frozen=True):
    """A machine of the cluster, and whether it answers."""

    metadata: ObjectMeta
    ready: bool = True


class _WireJob(Model, frozen=True):
    metadata: ObjectMeta
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


class _WireTfJobStatus(Model, frozen=True):
    details: msgspec.Raw = msgspec.Raw(b"{}")


class _WirePodSpec(Model, frozen=True):
    node_name: str = ""
    restart_policy: str = "Always"


class _WirePod(Model, frozen=True):
    metadata: ObjectMeta
    spec: _WirePodSpec = _WirePodSpec()
    status: PodStatus = PodStatus()


class _WireMetadata(Model, frozen=True):
    metadata: ObjectMeta


class _WireDeployment(Model, frozen=True):
    metadata: ObjectMeta
    status: DeploymentStatus = DeploymentStatus()


class _WireWrapper(Model, frozen=True):
    metadata: ObjectMeta
    status: JobStatus = JobStatus()


class _WireNodeCondition(Model, frozen=True):
    type: str = ""
    status: str = ""


class _WireNodeStatus(Model, frozen=True):
    conditions: list[_WireNodeCondition] = []


class _WireNode(Model, frozen=True):
    metadata: ObjectMeta
    status: _WireNodeStatus = _WireNodeStatus()


_jobs = msgspec.json.Decoder(_WireJob)
_pods = msgspec.json.Decoder(_WirePod)
_bare = msgspec.json.Decoder(_WireMetadata)
_deployments = msgspec.json.Decoder(_WireDeployment)
_pod_groups = msgspec.json.Decoder(PodGroup)
_wrappers = msgspec.json.Decoder(_WireWrapper)
_nodes = msgspec.json.Decoder(_WireNode)
_specs = msgspec.json.Decoder(TFJobSpec)
_statuses = msgspec.json.Decoder(TFJobStatus)
_tf_job_statuses = msgspec.json.Decoder(_WireTfJobStatus)
_anything = msgspec.json.Decoder()


def decode_job(encoded: bytes | msgspec.Raw) -> CachedJob:
    """A job for the cache."""
    wire = decoded(_jobs, encoded)
    return CachedJob(_trimmed(wire.metadata), bytes(wire.spec), bytes(wire.status))


def decode_tf_job(encoded: bytes | msgspec.Raw) -> CachedJob:
    """A TfJob for the cache."""
    return replace(decode_job(encoded), kind=TF_JOB)


JOB_DECODERS = {KIND: decode_job, TF_JOB: decode_tf_job}
"""By kind of job."""


def decode_pod(encoded: bytes | msgspec.Raw) -> Pod:
    """A pod for the cache: of its spec only the node and the restart policy."""
    wire = _pods.decode(encoded)
    spec: dict[str, Any] = {"restartPolicy": wire.spec.restart_policy}
    if wire.spec.node_name:
        spec["nodeName"] = wire.spec.node_name
    return Pod(metadata=_trimmed(wire.metadata), spec=spec, status=wire.status)


def decode_service(encoded: bytes | msgspec.Raw) -> Service:
    """A service for the cache: that it exists is all that matters."""
    return Service(metadata=_trimmed(_bare.decode(encoded).metadata))


def decode_pod_group(encoded: bytes | msgspec.Raw) -> PodGroup:
    """A pod group for the cache, whole: it is small, and compared with what it should be."""
    group = _pod_groups.decode(encoded)
    return replace(group, metadata=_trimmed(group.metadata))


def decode_config_map(encoded: bytes | msgspec.Raw) -> ConfigMap:
    """A ConfigMap for the cache: that it exists is all that matters."""
    return ConfigMap(metadata=_trimmed(_bare.decode(encoded).metadata))


def decode_deployment(encoded: bytes | msgspec.Raw) -> Deployment:
    """A deployment for the cache: whether it is up."""
    wire = _deployments.decode(encoded)
    return Deployment(metadata=_trimmed(wire.metadata), status=wire.status)


def decode_wrapper(encoded: bytes | msgspec.Raw) -> Job:
    """The Job around a pod for the cache: how it stands."""
    wire = _wrappers.decode(encoded)
    return Job(metadata=_trimmed(wire.metadata), status=wire.status)


DECODERS: dict[str, Callable[[bytes | msgspec.Raw], AnyChild]] = {
    "Pod": decode_pod,
    "Service": decode_service,
    "PodGroup": decode_pod_group,
    "ConfigMap": decode_config_map,
    "Deployment": decode_deployment,
    "Job": decode_wrapper,
}
"""By kind of child."""


def decode_node(encoded: bytes | msgspec.Raw) -> Node:
    """A node for the cache."""
    wire = _nodes.decode(encoded)
    ready = all(condition.status == "True" for condition in wire.status.conditions if condition.type == "Ready")
    return Node(
        metadata=ObjectMeta(name=wire.metadata.name, resource_version=wire.metadata.resource_version), ready=ready
    )


def job_of(cached: CachedJob) -> TFJob:
    """The job in full, with its defaults. Raises InvalidJob for a spec that is none.

    The API server checks specs against our schema, but a job may be older than it, or the schema somebody else's.
    """
    if cached.kind == TF_JOB:
        return _tf_job_of(cached)
    shell = TFJob(metadata=_of_kubeflow(cached.metadata), status=_status(cached.status))
    try:
        return with_defaults(replace(shell, spec=decoded(_specs, cached.spec)))
    except MISSHAPEN as error:
        spec = decoded(_anything, cached.spec)
        problems = errors(v1.schema().check({"apiVersion": API_VERSION, "kind": KIND, "spec": spec}, KIND).problems)
        shell = replace(shell, spec=TFJobSpec(run_policy=_run_policy(spec)))
        raise InvalidJob(shell, problems or [Problem("spec", str(error))]) from None


def tf_job_manifest(cached: CachedJob) -> dict[str, Any]:
    """A TfJob as its user wrote it."""
    return {
        "apiVersion": TENSORFLOW,
        "kind": TF_JOB,
        "metadata": {"name": cached.metadata.name, "annotations": cached.metadata.annotations},
        "spec": decoded(_anything, cached.spec),
    }


def _tf_job_of(cached: CachedJob) -> TFJob:
    """A TfJob as the hub type; of its status only what v1 says is read."""
    manifest = tf_job_manifest(cached)
    hub = converted(manifest, API_VERSION)
    # Whatever version a copy of it may have come from, here it is a TfJob.
    metadata = replace(cached.metadata, annotations={**hub["metadata"]["annotations"], ORIGIN: TENSORFLOW})
    status = _tf_job_status(cached.status)
    shell = TFJob(metadata=metadata, status=status)
    try:
        job = with_defaults(replace(shell, spec=msgspec.convert(hub.get("spec"), TFJobSpec)))
    except MISSHAPEN as error:
        raise InvalidJob(shell, errors(judge(manifest)) or [Problem("spec", str(error))]) from None
    # Its CRD takes any spec. One that runs is judged when it was edited, not by rules that came after it.
    unseen = status.attempt == 0 or status.observed_generation not in (0, cached.metadata.generation)
    if unseen and (problems := errors(judge(manifest))):
        # The plan would find the same, and name the fields of v1.
        raise InvalidJob(job, problems)
    return job


def _tf_job_status(encoded: bytes) -> TFJobStatus:
    """What a TfJob's status says beside what v1alpha1 had; its CRD takes anything, also what is no status."""
    try:
        return _status(bytes(decoded(_tf_job_statuses, encoded).details))
    except msgspec.ValidationError:
        return TFJobStatus()


def _of_kubeflow(metadata: ObjectMeta) -> ObjectMeta:
    """The metadata of a TFJob; one that was converted from a TfJob has the children of its new kind."""
    if metadata.annotations.get(ORIGIN) != TENSORFLOW:
        return metadata
    return replace(metadata, annotations={**metadata.annotations, ORIGIN: "kubeflow.org/v1alpha1"})


def _run_policy(spec: Any) -> RunPolicy:
    """What can be read of a broken spec: who manages a job, and what stays of it, holds all the same."""
    given = spec.get("runPolicy") if isinstance(spec, dict) else None
    sound = {}
    for name, value in given.items() if isinstance(given, dict) else ():
        with suppress(msgspec.ValidationError):
            msgspec.convert({name: value}, RunPolicy)
            sound[name] = value
    return msgspec.convert(sound, RunPolicy)


def _status(encoded: bytes) -> TFJobStatus:
    """A status; of one that is not ours the conditions, so that what has ended does not begin again."""
    try:
        return decoded(_statuses, encoded)
    except msgspec.ValidationError:
        found = decoded(_anything, encoded)
    conditions = []
    listed = found.get("conditions") if isinstance(found, dict) else None
    for condition in listed if isinstance(listed, list) else ():
        with suppress(msgspec.ValidationError):
            conditions.append(msgspec.convert(condition, Condition))
    return TFJobStatus(conditions=conditions)


def _trimmed(metadata: ObjectMeta) -> ObjectMeta:
    if not any(name in metadata.annotations for name in UNREAD_ANNOTATIONS):
        return metadata
    kept = {name: text for name, text in metadata.annotations.items() if name not in UNREAD_ANNOTATIONS}
    return replace(metadata, annotations=kept)
