"""Every API version that a job may be written in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from tfjob.api.conversion import Conversion
from tfjob.api.dialect import BATCH
from tfjob.api.problems import Path, Problem
from tfjob.api.types import API_VERSION, KIND, TFJob
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
    """The job as a manifest of another version, and what that version cannot say (paths are the hub's)."""
    return WRITERS[api_version](job, api_version)
