"""Jobs as an API server stores them, read as the hub type.

The API server checks specs against our schema, but a job may be older than the schema, or the schema not ours. What
cannot be read is reported as problems together with the rest of the job, never raised.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
from msgspec.structs import replace

from tfjob.api.defaults import with_defaults
from tfjob.api.dialect import TENSORFLOW, TF_JOB
from tfjob.api.objects import Model, ObjectMeta
from tfjob.api.problems import Problem, errors
from tfjob.api.text.shallow import decoded
from tfjob.api.types import API_VERSION, KIND, ORIGIN, Condition, RunPolicy, TFJob, TFJobSpec, TFJobStatus
from tfjob.api.versions import v1
from tfjob.api.versions.registry import judge
from tfjob.api.versions.round_trip import converted

MISSHAPEN = (msgspec.ValidationError, AttributeError, KeyError, TypeError, ValueError)
"""What reading a spec raises whose types differ from its schema."""


class _TfJobStatus(Model, frozen=True):
    details: msgspec.Raw = msgspec.Raw(b"{}")


_specs = msgspec.json.Decoder(TFJobSpec)
_statuses = msgspec.json.Decoder(TFJobStatus)
_tf_job_statuses = msgspec.json.Decoder(_TfJobStatus)
_anything = msgspec.json.Decoder()


def read_tfjob(metadata: ObjectMeta, spec: bytes, status: bytes) -> tuple[TFJob, list[Problem]]:
    """Return a TFJob of kubeflow.org with its defaults, and what is wrong with it."""
    shell = TFJob(metadata=_of_kubeflow(metadata), status=_status(status))
    try:
        return with_defaults(replace(shell, spec=decoded(_specs, spec))), []
    except MISSHAPEN as error:
        plain = decoded(_anything, spec)
        problems = errors(v1.schema().check({"apiVersion": API_VERSION, "kind": KIND, "spec": plain}, KIND).problems)
        shell = replace(shell, spec=TFJobSpec(run_policy=_run_policy(plain)))
        return shell, problems or [Problem("spec", str(error))]


def read_tf_job(metadata: ObjectMeta, spec: bytes, status: bytes) -> tuple[TFJob, list[Problem]]:
    """Return a 2017 TfJob as the hub type, and what is wrong with it; of its status only what v1 has is read."""
    manifest = tf_job_manifest(metadata, spec)
    hub = converted(manifest, API_VERSION)
    # Even if it was copied from another version: here it is a TfJob.
    annotations = {**hub["metadata"]["annotations"], ORIGIN: TENSORFLOW}
    shell = TFJob(metadata=replace(metadata, annotations=annotations), status=_tf_job_status(status))
    try:
        job = with_defaults(replace(shell, spec=msgspec.convert(hub.get("spec"), TFJobSpec)))
    except MISSHAPEN as error:
        return shell, errors(judge(manifest)) or [Problem("spec", str(error))]
    # Its CRD accepts any spec. A running job is checked when it was edited, not by rules that are newer than the job.
    unseen = job.status.attempt == 0 or job.status.observed_generation not in (0, metadata.generation)
    # The plan would find the same problems, but name the fields of v1.
    return job, errors(judge(manifest)) if unseen else []


def tf_job_manifest(metadata: ObjectMeta, spec: bytes) -> dict[str, Any]:
    """Return a TfJob as its user wrote it."""
    return {
        "apiVersion": TENSORFLOW,
        "kind": TF_JOB,
        "metadata": {"name": metadata.name, "annotations": metadata.annotations},
        "spec": decoded(_anything, spec),
    }


def _tf_job_status(encoded: bytes) -> TFJobStatus:
    """Return what a TfJob's status says in addition to v1alpha1's fields; its CRD accepts any status."""
    try:
        return _status(bytes(decoded(_tf_job_statuses, encoded).details))
    except msgspec.ValidationError:
        return TFJobStatus()


def _of_kubeflow(metadata: ObjectMeta) -> ObjectMeta:
    """Return the metadata of a TFJob; one that was converted from a TfJob has the children of its new kind."""
    if metadata.annotations.get(ORIGIN) != TENSORFLOW:
        return metadata
    return replace(metadata, annotations={**metadata.annotations, ORIGIN: "kubeflow.org/v1alpha1"})


def _run_policy(spec: Any) -> RunPolicy:
    """Return what can be read of a broken spec's policy: managedBy, and what stays of the job, still hold."""
    given = spec.get("runPolicy") if isinstance(spec, dict) else None
    sound = {}
    for name, value in given.items() if isinstance(given, dict) else ():
        with suppress(msgspec.ValidationError):
            msgspec.convert({name: value}, RunPolicy)
            sound[name] = value
    return msgspec.convert(sound, RunPolicy)


def _status(encoded: bytes) -> TFJobStatus:
    """Return a status; of one that is not ours only the conditions, so that a finished job does not start again."""
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
