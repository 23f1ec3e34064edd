"""Suspend and resume a job: the edits of its spec, and the annotation with the reason."""

from __future__ import annotations

from msgspec.structs import replace

from tfjob.api.types import TFJob

SUSPEND_REASON = "tfjob/suspend-reason"
"""Annotation: why a job was suspended, where a command did it: Stopped or Interrupted."""
RESUMING = "Resuming"


def suspended(job: TFJob, reason: str) -> TFJob:
    annotations = {**job.metadata.annotations, SUSPEND_REASON: reason}
    return replace(
        job,
        metadata=replace(job.metadata, annotations=annotations),
        spec=replace(job.spec, run_policy=replace(job.spec.run_policy, suspend=True)),
    )


def resumed(job: TFJob) -> TFJob:
    annotations = {key: value for key, value in job.metadata.annotations.items() if key != SUSPEND_REASON}
    return replace(
        job,
        metadata=replace(job.metadata, annotations=annotations),
        spec=replace(job.spec, run_policy=replace(job.spec.run_policy, suspend=False)),
    )
