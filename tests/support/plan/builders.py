"""Short words for the jobs, pods and passes that the plan's tests talk about."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import msgspec
from msgspec.structs import replace

from tfjob.api.objects import (
    ContainerRunning,
    ContainerState,
    ContainerStatus,
    ContainerTerminated,
    ContainerWaiting,
    ObjectMeta,
    Pod,
    PodCondition,
    PodGroup,
    PodStatus,
    Service,
)
from tfjob.api.types import (
    ORIGIN,
    Condition,
    ReplicaSpec,
    RunPolicy,
    TFJob,
    TFJobSpec,
    TFJobStatus,
)
from tfjob.controller.actions import Create, Delete, DeleteOwner
from tfjob.controller.kind import Observation, Rejection, Repetition
from tfjob.plan.build import pods as children
from tfjob.plan.build.settings import Settings
from tfjob.plan.facts.tasks import ATTEMPT, CANONICAL_TYPE, Task, attempts_due, desired
from tfjob.plan.facts.tf_config import tf_configs
from tfjob.plan.plan import JobPlan, plan

T0 = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
TYPES = ("chief", "evaluator", "master", "ps", "worker")


def at(seconds: float) -> datetime:
    """So many seconds after the story begins."""
    return T0 + timedelta(seconds=seconds)


def task(name: str) -> Task:
    """`worker-0` as the task it names."""
    kind, _, index = name.rpartition("-")
    return Task(CANONICAL_TYPE[kind], int(index))


def template(**container: Any) -> dict[str, Any]:
    """A pod template with one container called tensorflow."""
    own = {"name": "tensorflow", "image": "example.com/train:1", "command": ["python", "train.py"]}
    return {"spec": {"containers": [own | container]}}


def job(
    name: str = "mnist",
    *,
    policy: str | dict[str, str] | None = "ExitCode",
    pod_template: dict[str, Any] | None = None,
    origin: str = "",
    default_server: bool = False,
    annotations: dict[str, str] | None = None,
    run: dict[str, Any] | None = None,
    status: TFJobStatus | None = None,
    **given: Any,
) -> TFJob:
    """A job: `job(worker=2, ps=1, policy="Never", run={"backoff_limit": 3}, success_policy="AllWorkers")`.

    With `default_server` its parameter servers have no template, and so the program of ours.
    """
    policies = policy if isinstance(policy, dict) else dict.fromkeys(TYPES, policy)
    replicas = {
        CANONICAL_TYPE[kind]: ReplicaSpec(
            replicas=given.pop(kind),
            restart_policy=policies.get(kind),
            template=None if kind == "ps" and default_server else pod_template or template(),
        )
        for kind in TYPES
        if kind in given
    }
    notes = {**({ORIGIN: origin} if origin else {}), **(annotations or {})}
    return TFJob(
        metadata=ObjectMeta(name=name, namespace="default", uid="job-uid", generation=1, annotations=notes),
        spec=TFJobSpec(tf_replica_specs=replicas, run_policy=RunPolicy(**(run or {})), **given),
        status=status or TFJobStatus(),
    )


def status(attempt: int = 1, **given: Any) -> TFJobStatus:
    """The status of a job that has begun."""
    created = Condition(
        type="Created", status="True", reason="TFJobCreated", last_update_time=T0, last_transition_time=T0
    )
    return TFJobStatus(**{"attempt": attempt, "start_time": T0, "conditions": [created], **given})


@dataclass
class PodBuilder:
    """A pod that is told what happened to it: `pod(job, "worker-0").running().exited(1, at=5).pod`."""

    pod: Pod
    born: datetime = T0
    restarts: int = 0
    last: ContainerState = field(default_factory=ContainerState)

    def running(self, at_second: float = 0) -> Self:
        """Its container runs."""
        self.born = at(at_second)
        return self._set("Running", ContainerState(running=ContainerRunning(started_at=self.born)), ready=True)

    def exited(self, code: int, at: float = 0, reason: str = "", message: str = "", phase: str = "") -> Self:
        """Its container ended; so did the pod, unless `phase` says otherwise."""
        phase = phase or ("Succeeded" if code == 0 else "Failed")
        return self._set(phase, ContainerState(terminated=self._end(code, at, reason, message)))

    def oom(self, at: float = 0) -> Self:
        """The kernel killed it for its memory."""
        return self.exited(137, at, reason="OOMKilled")

    def restarted(self, code: int = 1, at: float = 0, times: int = 1, reason: str = "") -> Self:
        """Its container ended with `code` and the kubelet started it again at once, `times` in all."""
        self.last = ContainerState(terminated=self._end(code, at, reason))
        self.restarts += times
        return self.running(at)

    def evicted(self, at: float = 0, code: int | None = 137) -> Self:
        """Its node had no room for it."""
        if code is None:
            self._set("Failed", ContainerState())
        else:
            self.exited(code, at)
        return self._status(reason="Evicted", message="The node was low on resource: memory.")

    def disrupted(self, at: float = 0, reason: str = "PreemptionByScheduler") -> Self:
        """It was chosen to make room."""
        condition = PodCondition(type="DisruptionTarget", status="True", reason=reason, message="to make room")
        return self.exited(143, at)._status(conditions=[condition])

    def deleting(self, at_second: float = 0) -> Self:
        """Somebody asked for its deletion."""
        self.pod = replace(self.pod, metadata=replace(self.pod.metadata, deletion_timestamp=at(at_second)))
        return self

    def waiting(self, reason: str, message: str = "") -> Self:
        """Its container cannot start yet."""
        return self._set("Pending", ContainerState(waiting=ContainerWaiting(reason=reason, message=message)))

    def backing_off(self, code: int, at: float = 0, pause: str = "10s", reason: str = "", message: str = "") -> Self:
        """Its container ended with `code`, and the kubelet waits before it starts it again."""
        self.last = ContainerState(terminated=self._end(code, at, reason, message))
        text = f"back-off {pause} restarting failed container=tensorflow pod={self.pod.metadata.name}"
        waiting = ContainerWaiting(reason="CrashLoopBackOff", message=text)
        return self._set("Running", ContainerState(waiting=waiting))

    def unschedulable(self, message: str = "0/3 nodes are available") -> Self:
        """No node takes it."""
        condition = PodCondition(type="PodScheduled", status="False", reason="Unschedulable", message=message)
        return self._status(phase="Pending", conditions=[condition])

    def on(self, node: str) -> Self:
        """It was placed on a node."""
        self.pod = replace(self.pod, spec={**self.pod.spec, "nodeName": node})
        return self

    def created(self, at_second: float) -> Self:
        """When the object was made."""
        self.pod = replace(self.pod, metadata=replace(self.pod.metadata, creation_timestamp=at(at_second)))
        return self

    def annotated(self, **notes: str) -> Self:
        """More annotations; `__` stands for `/`, `_` for `-`."""
        named = {key.replace("__", "/").replace("_", "-"): value for key, value in notes.items()}
        annotations = {**self.pod.metadata.annotations, **named}
        self.pod = replace(self.pod, metadata=replace(self.pod.metadata, annotations=annotations))
        return self

    def _end(self, code: int, second: float, reason: str, message: str = "") -> ContainerTerminated:
        reason = reason or ("Completed" if code == 0 else "Error")
        return ContainerTerminated(
            exit_code=code, reason=reason, message=message, started_at=self.born, finished_at=at(second)
        )

    def _set(self, phase: str, state: ContainerState, ready: bool = False) -> Self:
        container = ContainerStatus(
            name="tensorflow", ready=ready, restart_count=self.restarts, state=state, last_state=self.last
        )
        return self._status(phase=phase, container_statuses=[container])

    def _status(self, **given: Any) -> Self:
        self.pod = replace(self.pod, status=replace(self.pod.status, **given))
        return self


def pod(owner: TFJob, name: str, attempt: int | None = None) -> PodBuilder:
    """The pod of a task as the plan makes it, for the attempt that is due unless another one is given."""
    one = task(name)
    due = attempt or attempts_due(owner, owner.status)(one)
    return _builder(one, children.pod(owner, one, due, Settings()))


def running(owner: TFJob, *names: str) -> list[PodBuilder]:
    """Running pods of the tasks named, or of all."""
    tasks = [task(name) for name in names] or list(desired(owner))
    return [_builder(one, made).running() for one, made in zip(tasks, _made(owner, tasks), strict=True)]


def _made(owner: TFJob, tasks: list[Task]) -> Iterable[Pod]:
    due = attempts_due(owner, owner.status)
    return children.pods(owner, [(one, due(one)) for one in tasks], Settings())


def _builder(one: Task, made: Pod) -> PodBuilder:
    uid = f"{one.name}-uid-{made.metadata.annotations[ATTEMPT]}"
    metadata = replace(made.metadata, uid=uid, creation_timestamp=T0)
    return PodBuilder(replace(made, metadata=metadata, status=PodStatus(phase="Pending")))


def services(owner: TFJob) -> list[Service]:
    """The services of all tasks."""
    made = [children.service(owner, one) for one in desired(owner)]
    return [replace(one, metadata=replace(one.metadata, uid=f"{one.metadata.name}-service")) for one in made]


def observed(
    owner: TFJob,
    pods: Iterable[PodBuilder] = (),
    *,
    lost_nodes: Iterable[str] = (),
    rejections: dict[tuple[str, str], Rejection] | None = None,
    repeated: dict[str, Repetition] | None = None,
    with_services: bool = True,
    pod_groups: Iterable[PodGroup] = (),
) -> Observation:
    """What the cluster shows."""
    return Observation(
        {
            Pod: [builder.pod for builder in pods],
            Service: services(owner) if with_services else [],
            PodGroup: list(pod_groups),
        },
        rejections=rejections or {},
        repeated_deletions=repeated or {},
        lost_nodes=frozenset(lost_nodes),
    )


def tf_config(owner: TFJob, one: Task, cluster_domain: str = "") -> str | None:
    """The TF_CONFIG of one task."""
    return next(tf_configs(owner, [one], cluster_domain))


def after(owner: TFJob, outcome: JobPlan) -> TFJob:
    """The job with the status that a pass wrote, as the next pass reads it: through JSON."""
    written = msgspec.json.decode(msgspec.json.encode(outcome.status), type=TFJobStatus)
    return replace(owner, status=written)


def begun(owner: TFJob, pods: Iterable[PodBuilder] | None = None) -> TFJob:
    """The job after a pass that saw its pods run."""
    first = after(owner, plan(owner, observed(owner, with_services=False), T0))
    return after(first, plan(first, observed(first, running(first) if pods is None else pods), at(1)))


def see(
    owner: TFJob,
    pods: Iterable[PodBuilder] = (),
    second: float = 0,
    settings: Settings | None = None,
    **given: Any,
) -> JobPlan:
    """A pass over the job at a second."""
    return plan(owner, observed(owner, pods, **given), at(second), settings)


def created_pods(outcome: JobPlan) -> list[str]:
    """The names of the pods that a pass makes."""
    return [a.child.metadata.name for a in outcome.actions if isinstance(a, Create) and a.child.kind == "Pod"]


def created_services(outcome: JobPlan) -> list[str]:
    """The names of the services that a pass makes."""
    return [a.child.metadata.name for a in outcome.actions if isinstance(a, Create) and a.child.kind == "Service"]


def deleted(outcome: JobPlan, kind: str = "Pod") -> list[str]:
    """The names of the children that a pass removes."""
    return [a.name for a in outcome.actions if isinstance(a, Delete) and a.kind == kind]


def deletes_job(outcome: JobPlan) -> bool:
    """Whether a pass removes the job itself."""
    return any(isinstance(a, DeleteOwner) for a in outcome.actions)


def listed(outcome: JobPlan) -> list[str]:
    """The conditions of a status in their order: `Running` or, when not true, `-Running`."""
    return [("" if c.status == "True" else "-") + c.type for c in outcome.status.conditions]


def news(outcome: JobPlan) -> list[str]:
    """The reasons of what a pass tells people."""
    return [item.reason for item in outcome.events]
