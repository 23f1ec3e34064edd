"""The rules that a job must keep; every fault is found in one pass."""

from __future__ import annotations

from tfjob.api.problems import Problem
from tfjob.api.types import TFJob


def validate(job: TFJob) -> list[Problem]:
    """What is wrong with the job, each with its path in the hub type; it needs no defaults."""
    return []
