"""Manifests that were read from a cluster in an older version: what that version cannot say is in an annotation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tfjob.api.conversion import Conversion
from tfjob.api.dialect import TENSORFLOW
from tfjob.api.problems import Problem, errors, path_text
from tfjob.api.types import API_VERSION, UNSAID
from tfjob.api.versions import v1
from tfjob.api.versions.round_trip import OLDER, converted


def with_unsaid(manifest: dict[str, Any], conversion: Conversion) -> Conversion:
    """A manifest that was read, with what its annotation adds: the job that a cluster would make of it.

    Its own places and problems stay. One with errors is left alone.
    """
    noted = UNSAID in conversion.job.metadata.annotations and manifest.get("apiVersion") in (*OLDER, TENSORFLOW)
    if not noted or errors(conversion.problems):
        return conversion
    complete = v1.to_hub(converted(manifest, API_VERSION))
    if faults := errors(complete.problems):
        path = path_text(("metadata", "annotations", UNSAID))
        said = f"it adds {faults[0].path}, which {faults[0].message}"
        told = Problem(path, said, "put back what the cluster wrote there, or leave the annotation out")
        return replace(conversion, problems=[*conversion.problems, told])
    return replace(conversion, job=complete.job)
