"""Every API version that a job may be written in: how to read, write and check a job in it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from msgspec import convert, to_builtins
from msgspec.structs import replace

from tfjob.api.conversion import Conversion
from tfjob.api.dialect import BATCH, TENSORFLOW
from tfjob.api.problems import Path, Problem, errors, path_parts, path_text
from tfjob.api.types import API_VERSION, KIND, TFJob, TFJobSpec
from tfjob.api.validation import validate
from tfjob.api.versions import batch, v1, v1alpha1, v1beta

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


def to_version(job: TFJob, api_version: str) -> tuple[dict[str, Any], list[Problem]]:
    """Return the job as a manifest of another version, and what that version cannot express, with hub paths."""
    return WRITERS[api_version](job, api_version)


def problems_of(conversion: Conversion, job: TFJob) -> list[Problem]:
    """Return every problem of a job that was read, with paths of the user's version; `job` may have another name."""
    refused = [path_parts(problem.path) for problem in errors(conversion.problems)]
    found = list(conversion.problems)
    for problem in validate(job):
        path = conversion.user_path(path_parts(problem.path))
        # What its type has ruled out already is not judged a second time.
        if not any(path[: len(faulty)] == faulty for faulty in refused):
            found.append(replace(problem, path=path_text(path)))
    return found


def reshaped(job: TFJob) -> tuple[TFJob, list[Problem]]:
    """Return the job without nulls in its templates, and where its spec does not have the types of v1.

    A job that was read from a manifest has neither.
    """
    spec = {"apiVersion": API_VERSION, "kind": KIND, "spec": to_builtins(job.spec)}
    checked = v1.schema().check(spec, KIND)
    if errors(checked.problems):
        return job, checked.problems
    return replace(job, spec=convert(checked.value["spec"], TFJobSpec)), checked.problems


def judge(manifest: Mapping[str, Any], *, stored: bool = True) -> list[Problem]:
    """Return every problem of a job in any version, as an API server has it.

    In a TfJob that is `stored`, a field may appear twice: as the operator wrote it, and as it was applied since.
    """
    api_version, kind = str(manifest.get("apiVersion")), str(manifest.get("kind"))
    reader = READERS.get((api_version, kind))
    if reader is None:
        return [Problem("apiVersion", f"{api_version} {kind} is no job that tfjob reads")]
    if stored and api_version == TENSORFLOW and isinstance(spec := manifest.get("spec"), dict):
        manifest = {**manifest, "spec": v1alpha1.renewed(spec)}
    conversion = reader(manifest, ())
    return problems_of(conversion, conversion.job)
