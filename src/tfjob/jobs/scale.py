"""Change the numbers of replicas of a job."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from tfjob.api.objects import Deployment
from tfjob.api.suggest import did_you_mean
from tfjob.api.types import TFJob
from tfjob.api.validation import validate
from tfjob.errors import UserError


class InvalidScale(UserError):
    """The job cannot have these numbers of replicas."""


def names_of(owner: TFJob | Deployment) -> list[str]:
    return ["replicas"] if isinstance(owner, Deployment) else [name.lower() for name in owner.spec.tf_replica_specs]


def scaled(owner: TFJob | Deployment, counts: Mapping[str, int]) -> TFJob | Deployment:
    """Return the owner with these counts, by the names of `names_of` in any case. Raises InvalidScale."""
    known = names_of(owner)
    for name, count in counts.items():
        if name.lower() not in known:
            if isinstance(owner, Deployment):
                raise InvalidScale(f"{name}={count}: {owner.metadata.name} is a Deployment", f"Use replicas={count}.")
            hint = " ".join(
                filter(None, (did_you_mean(name, known).capitalize(), f"Its replica types: {', '.join(known)}."))
            )
            raise InvalidScale(f"{name}={count}: the job has no replica type '{name}'", hint)
    if isinstance(owner, Deployment):
        return replace(owner, spec={**owner.spec, "replicas": next(iter(counts.values()))})
    return _scaled_job(owner, counts)


def _scaled_job(job: TFJob, counts: Mapping[str, int]) -> TFJob:
    specs = dict(job.spec.tf_replica_specs)
    names = {name.lower(): name for name in specs}
    for name, count in counts.items():
        key = names[name.lower()]
        specs[key] = replace(specs[key], replicas=count)
    if not any(spec.replicas for spec in specs.values()):
        raise InvalidScale("a job needs at least one replica", f"To pause it: tfjob suspend {job.metadata.name}")
    wanted = replace(job, spec=replace(job.spec, tf_replica_specs=specs))
    if faults := [str(problem) for problem in validate(wanted) if not problem.warning]:
        raise InvalidScale("\n".join(faults))
    return wanted
