"""Read, write and check jobs of every API version.

A stored job may be malformed: it may be older than the schema of its CRD, or the CRD may not be ours. Reading it
returns what can be read, and problems for the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any

import msgspec
from msgspec.structs import replace

from tfjob.api.conversion import Conversion
from tfjob.api.defaults import with_defaults
from tfjob.api.dialect import BATCH, TENSORFLOW, TF_JOB
from tfjob.api.objects import ObjectMeta
from tfjob.api.problems import Path, Problem, errors, path_parts, path_text
from tfjob.api.text.shallow import decoded
from tfjob.api.types import API_VERSION, KIND, ORIGIN, Condition, RunPolicy, TFJob, TFJobSpec, TFJobStatus
from tfjob.api.validation import validate
from tfjob.api.versions import batch, v1, v1alpha1, v1beta
from tfjob.api.versions.round_trip import converted

Reader = Callable[[Mapping[str, Any], Collection[Path]], Conversion]
Writer = Callable[[TFJob, str], tuple[dict[str, Any], list[Problem]]]
READERS: dict[tuple[str, str], Reader] = {
    (API_VERSION, KIND): v1.to_hub,
    **{(version, KIND): v1beta.to_hub for version in v1beta.VERSIONS},
    **dict.fromkeys(v1alpha1.KINDS, v1alpha1.to_hub),
    (BATCH, batch.KIND): batch.to_hub,
}
"""By apiVersion and kind."""
WRITERS: dict[str, Writer] = {
    API_VERSION: v1.from_hub,
    **dict.fromkeys(v1beta.VERSIONS, v1beta.from_hub),
    **{version: v1alpha1.from_hub for version, _ in v1alpha1.KINDS},
    BATCH: batch.from_hub,
}
"""By apiVersion."""
MISSHAPEN = (msgspec.ValidationError, AttributeError, KeyError, TypeError, ValueError)
"""The errors of reading a spec with wrong types."""


_specs = msgspec.json.Decoder(TFJobSpec)
_statuses = msgspec.json.Decoder(TFJobStatus)
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_anything = msgspec.json.Decoder()


def to_version(job: TFJob, api_version: str) -> tuple[dict[str, Any], list[Problem]]:
    """Return the job as a manifest of another version, and what is lost, with hub paths."""
    return WRITERS[api_version](job, api_version)


def problems_of(conversion: Conversion, job: TFJob) -> list[Problem]:
    """Return every problem of a job, with paths of the user's version; `job` may have another name."""
    refused = [path_parts(problem.path) for problem in errors(conversion.problems)]
    found = list(conversion.problems)
    for problem in validate(job):
        path = conversion.user_path(path_parts(problem.path))
        # Do not check a value whose type is already wrong.
        if not any(path[: len(faulty)] == faulty for faulty in refused):
            found.append(replace(problem, path=path_text(path)))
    return found


def reshaped(job: TFJob) -> tuple[TFJob, list[Problem]]:
    """Return a stored job without nulls in its templates, and the problems of its types."""
    spec = {"apiVersion": API_VERSION, "kind": KIND, "spec": msgspec.to_builtins(job.spec)}
    checked = v1.schema().check(spec, KIND)
    if errors(checked.problems):
        return job, checked.problems
    return replace(job, spec=msgspec.convert(checked.value["spec"], TFJobSpec)), checked.problems


def judge(manifest: Mapping[str, Any], *, stored: bool = True) -> list[Problem]:
    """Return every problem of a job in any version; in a `stored` TfJob, a field may occur twice."""
    api_version, kind = str(manifest.get("apiVersion")), str(manifest.get("kind"))
    reader = READERS.get((api_version, kind))
    if reader is None:
        return [Problem("apiVersion", f"{api_version} {kind} is not a job that tfjob can read")]
    if stored and api_version == TENSORFLOW and isinstance(spec := manifest.get("spec"), dict):
        manifest = {**manifest, "spec": v1alpha1.without_repeats(spec)}
    conversion = reader(manifest, ())
    return problems_of(conversion, conversion.job)


def read_tfjob(metadata: ObjectMeta, spec: bytes, status: bytes) -> tuple[TFJob, list[Problem]]:
    shell = TFJob(metadata=_of_kubeflow(metadata), status=_status(status))
    try:
        return with_defaults(replace(shell, spec=decoded(_specs, spec))), []
    except MISSHAPEN as error:
        plain = decoded(_anything, spec)
        problems = errors(v1.schema().check({"apiVersion": API_VERSION, "kind": KIND, "spec": plain}, KIND).problems)
        shell = replace(shell, spec=TFJobSpec(run_policy=_run_policy(plain)))
        return shell, problems or [Problem("spec", str(error))]


def read_tf_job(metadata: ObjectMeta, spec: bytes, status: bytes) -> tuple[TFJob, list[Problem]]:
    """Return a 2017 TfJob as the hub type, and its problems; of its status, only the part of v1 is read."""
    manifest = tf_job_manifest(metadata, spec)
    hub = converted(manifest, API_VERSION)
    # Its annotation may be a copy from a job of another version.
    annotations = {**hub["metadata"]["annotations"], ORIGIN: TENSORFLOW}
    shell = TFJob(metadata=replace(metadata, annotations=annotations), status=_tf_job_status(status))
    try:
        job = with_defaults(replace(shell, spec=msgspec.convert(hub.get("spec"), TFJobSpec)))
    except MISSHAPEN as error:
        return shell, errors(judge(manifest)) or [Problem("spec", str(error))]
    # Its CRD accepts any spec. A running job is only checked after an edit, because rules may be newer than the job.
    unseen = job.status.attempt == 0 or job.status.observed_generation not in (0, metadata.generation)
    # The plan would find the same problems, but with the paths of v1.
    return job, errors(judge(manifest)) if unseen else []


def tf_job_manifest(metadata: ObjectMeta, spec: bytes) -> dict[str, Any]:
    return {
        "apiVersion": TENSORFLOW,
        "kind": TF_JOB,
        "metadata": {"name": metadata.name, "annotations": metadata.annotations},
        "spec": decoded(_anything, spec),
    }


def _tf_job_status(encoded: bytes) -> TFJobStatus:
    """Return the part of a TfJob's status that v1 has; the CRD accepts any status."""
    try:
        return _status(bytes(decoded(_fields, encoded).get(v1beta.DETAILS, b"{}")))
    except msgspec.ValidationError:
        return TFJobStatus()


def _of_kubeflow(metadata: ObjectMeta) -> ObjectMeta:
    """Return the metadata of a TFJob; if it was converted from a TfJob, its children are those of a TFJob."""
    if metadata.annotations.get(ORIGIN) != TENSORFLOW:
        return metadata
    return replace(metadata, annotations={**metadata.annotations, ORIGIN: "kubeflow.org/v1alpha1"})


def _run_policy(spec: Any) -> RunPolicy:
    """Return the valid fields of a malformed spec's policy: managedBy and the cleanup rules still apply."""
    sound = {}
    for name, value in v1beta.mapping(v1beta.mapping(spec).get("runPolicy")).items():
        with suppress(msgspec.ValidationError):
            msgspec.convert({name: value}, RunPolicy)
            sound[name] = value
    return msgspec.convert(sound, RunPolicy)


def _status(encoded: bytes) -> TFJobStatus:
    """Return a status. If it is malformed, return its conditions, so that a finished job does not start again."""
    try:
        return decoded(_statuses, encoded)
    except msgspec.ValidationError:
        listed = v1beta.mapping(decoded(_anything, encoded)).get("conditions")
    conditions = []
    for condition in listed if isinstance(listed, list) else ():
        with suppress(msgspec.ValidationError):
            conditions.append(msgspec.convert(condition, Condition))
    return TFJobStatus(conditions=conditions)
