"""The PodGroup with which a gang scheduler starts all pods of a job or none, as training-operator v1.9 makes it.

An option of the operator names the scheduler: Volcano, or one with the coscheduling plugin of scheduler-plugins.
Volcano must admit a group before its pods are created.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from tfjob.api import quantity
from tfjob.api.names import child_metadata
from tfjob.api.objects import PodGroup
from tfjob.api.types import SchedulingPolicy, TFJob
from tfjob.controller.actions import Action, Create, Event, Update
from tfjob.controller.kind import Observation
from tfjob.plan import events
from tfjob.plan.facts.tasks import desired

VOLCANO = "volcano"
VOLCANO_VERSION, PLUGINS_VERSION = "scheduling.volcano.sh/v1beta1", "scheduling.x-k8s.io/v1alpha1"
VOLCANO_GROUP, VOLCANO_TASK = "scheduling.k8s.io/group-name", "volcano.sh/task-spec"
PLUGINS_GROUP = "scheduling.x-k8s.io/pod-group"
DEFAULT_QUEUE = "default"
OURS = ("minMember", "minResources", "queue", "priorityClassName", "scheduleTimeoutSeconds")
"""The fields of a group's spec that we set; the others belong to the scheduler."""


@dataclass(frozen=True)
class Step:
    """The actions for a job's group, whether its pods must wait (`hold`), and the reason if this may take long."""

    actions: Sequence[Action] = ()
    hold: bool = False
    wait: str = ""


def step(job: TFJob, observed: Observation, scheduler: str) -> Step:
    """Create the group before the pods, and update it if the job changes."""
    if not scheduler:
        return Step()
    name = job.metadata.name
    present = next((group for group in observed.of(PodGroup) if group.metadata.name == name), None)
    if present is None:
        return Step([Create(pod_group(job, scheduler))], hold=True)
    if present.metadata.deletion_timestamp is not None:
        return Step(hold=True, wait=events.GROUP_LEAVING.format(name=name))
    wanted = pod_group(job, scheduler)
    spec = _changed(present.spec, wanted.spec)
    actions = [] if spec is None else [Update(replace(present, api_version=wanted.api_version, spec=spec))]
    if is_volcano(scheduler) and present.status.phase in ("", "Pending"):
        return Step(actions, hold=True, wait=events.GROUP_NOT_ADMITTED.format(scheduler=VOLCANO, name=name))
    return Step(actions)


def is_volcano(scheduler: str) -> bool:
    return scheduler.lower() == VOLCANO


def scheduler_name(scheduler: str) -> str:
    return VOLCANO if is_volcano(scheduler) else scheduler


def pod_labels(job: TFJob, scheduler: str) -> dict[str, str]:
    return {PLUGINS_GROUP: job.metadata.name} if scheduler and not is_volcano(scheduler) else {}


def pod_annotations(job: TFJob, replica_type: str, scheduler: str) -> dict[str, str]:
    return {VOLCANO_GROUP: job.metadata.name, VOLCANO_TASK: replica_type.lower()} if is_volcano(scheduler) else {}


def pod_group(job: TFJob, scheduler: str) -> PodGroup:
    """Return the group of a job: how many pods, with which resources, must be schedulable at the same time."""
    policy = job.spec.run_policy.scheduling_policy or SchedulingPolicy()
    members = len(desired(job)) if policy.min_available is None else policy.min_available
    # A manifest may contain a fraction without quotes, which the API of a group does not accept.
    given = {
        name: quantity.total([value]) if isinstance(value, float) else value
        for name, value in policy.min_resources.items()
    }
    spec: dict[str, Any] = {"minMember": members, "minResources": given or _resources(job, members)}
    if is_volcano(scheduler):
        spec["queue"] = policy.queue or DEFAULT_QUEUE
        if policy.priority_class:
            spec["priorityClassName"] = policy.priority_class
    elif policy.schedule_timeout_seconds is not None:
        spec["scheduleTimeoutSeconds"] = policy.schedule_timeout_seconds
    return PodGroup(
        api_version=VOLCANO_VERSION if is_volcano(scheduler) else PLUGINS_VERSION,
        metadata=child_metadata(job, job.metadata.name, {}, annotations=dict(job.metadata.annotations)),
        spec=spec,
    )


def scheduler_news(job: TFJob, scheduler: str) -> Iterator[Event]:
    """Warn that pods with another scheduler do not start together with the others."""
    templates = (replica.template or {} for replica in job.spec.tf_replica_specs.values())
    named = {(template.get("spec") or {}).get("schedulerName") for template in templates}
    if scheduler and named - {None, "", scheduler_name(scheduler)}:
        yield events.OTHER_SCHEDULER


def _changed(present: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the spec that a group should have; None if its current one is equivalent."""
    if present.get("queue"):
        wanted = {**wanted, "queue": present["queue"]}  # a group cannot change its queue
    if all(_same(present.get(name), wanted.get(name)) for name in OURS):
        return None
    return {name: value for name, value in present.items() if name not in OURS} | dict(wanted)


def _same(one: Any, other: Any) -> bool:
    """Return whether two values are equivalent, such as `1` and `1000m`, or a missing and an empty value."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_amount(one[name]) == _amount(other[name]) for name in one)
    return bool(one == other or not (one or other))


def _resources(job: TFJob, members: int) -> dict[str, str]:
    """Return the total requests of the first pods of a job; limits count if a container has no requests.

    v1.9 takes the pods with the highest priority first. Reading the value of a priority class needs permissions for the
    whole cluster, so we use the order of types. It matters only if `minAvailable` leaves pods out.
    """
    amounts: dict[str, list[Any]] = {}
    for task in desired(job)[:members]:
        template = job.spec.tf_replica_specs[task.type].template or {}
        for container in (template.get("spec") or {}).get("containers") or ():
            resources = container.get("resources") or {}
            for name, value in (resources.get("requests") or resources.get("limits") or {}).items():
                if _amount(value) is not None:
                    amounts.setdefault(name, []).append(value)
    return {name: quantity.total(values) for name, values in amounts.items()}


def _amount(value: Any) -> Any:
    try:
        return quantity.parse(value)
    except ValueError:
        return None
