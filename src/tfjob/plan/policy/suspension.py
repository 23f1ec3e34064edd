"""Suspend and resume a job: edit its spec, and the annotation with the reason."""

from __future__ import annotations

from msgspec.structs import replace

from tfjob.api.types import TFJob
from tfjob.controller.kind import SUSPEND_REASON as SUSPEND_REASON

RESUMING = "Resuming"


def suspended(job: TFJob, reason: str) -> TFJob:
    return _with_suspend(job, {**job.metadata.annotations, SUSPEND_REASON: reason}, suspend=True)


def resumed(job: TFJob) -> TFJob:
    others = {key: value for key, value in job.metadata.annotations.items() if key != SUSPEND_REASON}
    return _with_suspend(job, others, suspend=False)


def _with_suspend(job: TFJob, annotations: dict[str, str], *, suspend: bool) -> TFJob:
    run_policy = replace(job.spec.run_policy, suspend=suspend)
    metadata = replace(job.metadata, annotations=annotations)
    return replace(job, metadata=metadata, spec=replace(job.spec, run_policy=run_policy))
