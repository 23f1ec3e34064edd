"""A job with other numbers of replicas."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from tfjob.api.suggest import did_you_mean
from tfjob.api.types import TFJob
from tfjob.api.validation import validate


class InvalidScale(Exception):
    """The job cannot have these numbers of replicas; `hint` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def scaled(job: TFJob, counts: Mapping[str, int]) -> TFJob:
    """Return the job with these numbers, by replica type in any case. Raises InvalidScale."""
    specs = dict(job.spec.tf_replica_specs)
    names = {name.lower(): name for name in specs}
    for name, count in counts.items():
        if name.lower() not in names:
            hint = " ".join(filter(None, (did_you_mean(name, names).capitalize(), f"The job has {', '.join(names)}.")))
            raise InvalidScale(f"{name}={count}: the job has no replica type {name}", hint)
        key = names[name.lower()]
        specs[key] = replace(specs[key], replicas=count)
    wanted = replace(job, spec=replace(job.spec, tf_replica_specs=specs))
    if faults := [str(problem) for problem in validate(wanted) if not problem.warning]:
        raise InvalidScale("\n".join(faults))
    return wanted
