"""A tiny cluster that does what kubelets, users and crashes do, and checks what a plan may never do to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from plan.builders import T0
from tfjob.api.objects import (
    ContainerRunning,
    ContainerState,
    ContainerStatus,
    ContainerTerminated,
    Pod,
    PodGroup,
    PodGroupStatus,
    PodStatus,
    Service,
)
from tfjob.api.types import PS, TFJob, TFJobStatus
from tfjob.plan.actions import Action, Create, Delete, Update
from tfjob.plan.attempts import attempt_due, made_for
from tfjob.plan.conditions import is_finished
from tfjob.plan.gangs import gang_types
from tfjob.plan.plan import Plan, plan
from tfjob.plan.tasks import Observed, Task, desired, main_container, task_of
from tfjob.plan.views import INFRASTRUCTURE_REASONS

Decide = Callable[[TFJob, Observed, datetime], Plan]
LOSSES = INFRASTRUCTURE_REASONS | {"PodLost", "PodDeleted", "NodeNotReady", "Resized"}


INVARIANTS = {
    "no overlap": "the runs of one index never overlap",
    "done stays done": "a finished replica does not run again within its attempt",
    "monotone": "attempt, restarts and retries never fall",
    "final": "an end is final",
    "one end": "succeeded and failed exclude each other",
    "repeatable": "a second look at the same things, as after a crash, writes the same status",
    "rests": "when nothing changes there is soon nothing to write or to do",
    "one generation": "no pod of a gang is made while one of an older attempt exists",
    "bystanders": "a running task that is no member of a gang is not stopped while the job goes on",
    "limit": "backoffLimit is never exceeded",
    "record first": "a failure is written down before its pod is deleted",
    "ends": "when all programs exit 0 the job ends, woken by nothing but its plan",
    "group first": "no pod is made before the gang scheduler has admitted its group",
}


class Violated(AssertionError):
    """A plan did what it may never do."""


@dataclass(frozen=True)
class Birth:
    """What the cluster knows of the making of a pod."""

    task: Task
    attempt: int
    resumes: int
    scalings: int


@dataclass
class ModelCluster:
    """One job and its children. Every write of a status and every action is checked against the truth."""

    job: TFJob
    decide: Decide = plan
    only: str | None = None
    now: datetime = T0
    gang_scheduled: bool = False
    group: PodGroup | None = None
    pods: dict[str, Pod] = field(default_factory=dict)
    services: dict[str, Service] = field(default_factory=dict)
    births: dict[str, Birth] = field(default_factory=dict)
    latest: dict[Task, str] = field(default_factory=dict)
    done: dict[Task, Birth] = field(default_factory=dict)
    scalings: Counter[Task] = field(default_factory=Counter)
    resumes: int = 0
    incidents: set[datetime] = field(default_factory=set)
    last_seen: list[Pod] = field(default_factory=list)
    failures: int = 0
    again_at: datetime | None = None

    def must(self, invariant: str, holds: object, detail: str = "") -> None:
        """Checks one of the invariants, unless another one alone is looked for."""
        if not holds and self.only in (None, invariant):
            raise Violated(f"{INVARIANTS[invariant]}: {detail}")

    # --- the controller -----------------------------------------------------------------------------------------

    def reconcile(self, *, status_fails: bool = False, crash_after: int | None = None, lagging: bool = False) -> bool:
        """A pass; it may see the pods of the pass before, fail to write, or die between two actions.

        Returns whether it changed or did anything.
        """
        seen = self._observe(lagging)
        outcome = self.decide(self.job, seen, self.now)
        self._check_repeatable(seen, outcome)
        if status_fails:
            return True
        before = self.job
        self.again_at = outcome.again_at
        self._write(outcome.status, seen)
        actions = list(outcome.actions)
        for action in actions[:crash_after]:
            self._act(action)
        return bool(actions) or self.job.status != before.status

    def come_to_rest(self) -> None:
        """Passes while nothing happens: after a few there is nothing left to write or to do."""
        for _ in range(6):
            if not self.reconcile():
                return
        self.must("rests", False)

    def _observe(self, lagging: bool) -> Observed:
        if not lagging:
            self.last_seen = list(self.pods.values())
        groups = [self.group] if self.group else []
        return Observed(pods=list(self.last_seen), services=list(self.services.values()), pod_groups=groups)

    def _check_repeatable(self, seen: Observed, outcome: Plan) -> None:
        """A pass that died right after its status write is repeated and decides the same."""
        written = replace(self.job, status=_through_json(outcome.status))
        again = self.decide(written, seen, self.now)
        self.must("repeatable", again.status == written.status, f"{again.status} after {written.status}")

    def _write(self, status: TFJobStatus, seen: Observed) -> None:
        old, new = self.job.status, _through_json(status)
        for name in ("attempt", "restarts", "retries"):
            self.must("monotone", getattr(new, name) >= getattr(old, name), name)
        ends = {one.type for one in new.conditions if one.status == "True"} & {"Succeeded", "Failed"}
        self.must("one end", len(ends) < 2)
        self.must("final", new == old or not is_finished(old))
        self._note_completions(seen)
        if _is_suspended(old) and not _is_suspended(new) and not is_finished(new):
            self.resumes += 1
        self._note_incident(new)
        self.job = replace(self.job, status=new)

    def _note_incident(self, status: TFJobStatus) -> None:
        last = status.last_restart
        if last and last.time and last.cause.exit_code is not None and last.cause.reason not in LOSSES:
            self.incidents.add(last.time)
        limit = self.job.spec.run_policy.backoff_limit
        if limit is not None and status.state != "Suspended" and not is_finished(status):
            self.must("limit", len(self.incidents) <= limit and status.retries <= limit)

    def _note_completions(self, seen: Observed) -> None:
        """What a pass has seen to be done is done, for as long as that attempt lasts."""
        for pod in seen.pods:
            birth, main = self.births[pod.metadata.uid], main_container(pod)
            ended = main.state.terminated if main else None
            done = pod.status.phase == "Succeeded" and ended and ended.exit_code == 0
            present = birth == self._birth(birth.task) and self.latest[birth.task] == pod.metadata.uid
            if done and present and not pod.metadata.deletion_timestamp:
                self.done[birth.task] = birth

    def _birth(self, task: Task) -> Birth:
        together = task.type in gang_types(self.job)
        return Birth(task, self.job.status.attempt if together else 0, self.resumes, self.scalings[task])

    def _act(self, action: Action) -> None:
        match action:
            case Create(child=Pod() as child):
                self._create(child)
            case Create(child=Service() as child):
                self.services.setdefault(child.metadata.name, child)
            case Create(child=PodGroup() as child):
                self.group = self.group or child
            case Update(child):
                self.group = replace(child, status=self.group.status) if self.group else None
            case Delete("Pod", name, uid):
                self._delete(name, uid)
            case Delete("PodGroup", _, _):
                self.group = None
            case Delete(_, name, _):
                self.services.pop(name, None)

    def _create(self, child: Pod) -> None:
        if child.metadata.name in self.pods:
            return
        task = task_of(child)
        assert task is not None
        self.must("final", not is_finished(self.job.status), "a pod is made afterwards")
        if self.gang_scheduled:
            self.must("group first", self.group and self.group.status.phase, task.name)
        birth = self._birth(task)
        self.must("done stays done", self.done.get(task) != birth, task.name)
        types = gang_types(self.job)
        if task.type in types:
            older = [
                name
                for name, pod in self.pods.items()
                if (other := self.births[pod.metadata.uid]).task.type in types
                and (other.attempt, other.resumes) != (birth.attempt, birth.resumes)
            ]
            self.must("one generation", not older, f"{task.name} beside {older}")
        uid = f"uid-{len(self.births)}"
        self.births[uid], self.latest[task] = birth, uid
        metadata = replace(child.metadata, uid=uid, creation_timestamp=self.now)
        self.pods[child.metadata.name] = replace(child, metadata=metadata, status=PodStatus(phase="Pending"))

    def _delete(self, name: str, uid: str) -> None:
        pod = self.pods.get(name)
        if pod is None or pod.metadata.uid != uid:
            return
        task, main = self.births[uid].task, main_container(pod)
        failed = main and main.state.terminated and main.state.terminated.exit_code
        if failed and task in set(desired(self.job)) and not self.job.spec.run_policy.suspend:
            recorded = is_finished(self.job.status) or attempt_due(self.job, self.job.status, task) > made_for(pod)
            self.must("record first", recorded, task.name)
        goes_on = not (is_finished(self.job.status) or self.job.spec.run_policy.suspend)
        if goes_on and self.births[uid] == self._birth(task) and task.type not in gang_types(self.job):
            stopped = is_alive(pod) and task in set(desired(self.job))
            self.must("bystanders", not stopped, task.name)
        self.someone_deletes(name)

    # --- the kubelet --------------------------------------------------------------------------------------------

    def start(self, name: str) -> None:
        """The container of a pending pod starts."""
        pod = self.pods[name]
        task = self.births[pod.metadata.uid].task
        for other in self.pods.values():
            if self.births[other.metadata.uid].task == task and other is not pod:
                self.must("no overlap", not is_alive(other), task.name)
        self._set(name, "Running", ContainerState(running=ContainerRunning(started_at=self.now)))

    def exit(self, name: str, code: int, reason: str = "") -> None:
        """The container of a running pod ends; whether for good is the pod's restart policy."""
        pod = self.pods[name]
        policy = pod.spec["restartPolicy"]
        again = policy == "Always" or (policy == "OnFailure" and code)
        in_place = again and pod.metadata.deletion_timestamp is None
        phase = "Running" if in_place else "Failed" if code else "Succeeded"
        self.failures += code != 0
        main = main_container(pod)
        started = main.state.running.started_at if main and main.state.running else None
        terminated = ContainerTerminated(exit_code=code, reason=reason, started_at=started, finished_at=self.now)
        self._set(name, phase, ContainerState(terminated=terminated))

    def restart_in_place(self, name: str) -> None:
        """The kubelet starts a container again."""
        main = main_container(self.pods[name])
        assert main is not None
        state = ContainerState(running=ContainerRunning(started_at=self.now))
        self._set(name, "Running", state, restarts=main.restart_count + 1, last=main.state)

    def evict(self, name: str) -> None:
        """The node throws a pod out."""
        if is_alive(self.pods[name]):
            self.exit(name, 137)
        self.failures += 1
        pod = self.pods[name]
        self.pods[name] = replace(pod, status=replace(pod.status, phase="Failed", reason="Evicted"))

    def someone_deletes(self, name: str) -> None:
        """A pod is asked to go."""
        pod = self.pods[name]
        if pod.metadata.deletion_timestamp is None:
            self.pods[name] = replace(pod, metadata=replace(pod.metadata, deletion_timestamp=self.now))

    def removed(self, name: str) -> None:
        """A pod is gone, and its processes with it."""
        del self.pods[name]

    def _set(
        self,
        name: str,
        phase: str,
        state: ContainerState,
        restarts: int | None = None,
        last: ContainerState | None = None,
    ) -> None:
        pod = self.pods[name]
        before = main_container(pod) or ContainerStatus(name="tensorflow")
        container = replace(
            before,
            state=state,
            restart_count=before.restart_count if restarts is None else restarts,
            last_state=before.last_state if last is None else last,
        )
        self.pods[name] = replace(pod, status=replace(pod.status, phase=phase, container_statuses=[container]))

    def admit(self) -> None:
        """The gang scheduler lets the pods of the group come."""
        if self.group is not None:
            self.group = replace(self.group, status=PodGroupStatus(phase="Inqueue"))

    # --- the user and the clock ---------------------------------------------------------------------------------

    def suspend(self, suspend: bool) -> None:
        """An edit of `suspend`."""
        run_policy = replace(self.job.spec.run_policy, suspend=suspend)
        self._edit(replace(self.job, spec=replace(self.job.spec, run_policy=run_policy)))

    def scale(self, replica_type: str, count: int) -> None:
        """An edit of a number of replicas."""
        old = set(desired(self.job))
        specs = dict(self.job.spec.tf_replica_specs)
        specs[replica_type] = replace(specs[replica_type], replicas=count)
        self._edit(replace(self.job, spec=replace(self.job.spec, tf_replica_specs=specs)))
        for task in old - set(desired(self.job)):
            self.scalings[task] += 1

    def left_by_v1_9(self) -> None:
        """All that we wrote is forgotten, as if training-operator v1.9 had run the job until now."""
        times = {"last_update_time": self.now, "last_transition_time": self.now}
        conditions = [replace(condition, **times) for condition in self.job.status.conditions]
        self.job = replace(self.job, status=TFJobStatus(conditions=conditions, start_time=self.job.status.start_time))
        for name, pod in self.pods.items():
            self.pods[name] = replace(pod, metadata=replace(pod.metadata, annotations={}))

    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.now += timedelta(seconds=seconds)

    def _edit(self, job: TFJob) -> None:
        self.job = replace(job, metadata=replace(job.metadata, generation=job.metadata.generation + 1))

    # --- the good end -------------------------------------------------------------------------------------------

    def run_to_the_end(self) -> None:
        """From now on every program exits 0 and nothing goes wrong: the job must end, woken by nothing but its plan."""
        self.suspend(False)
        for _ in range(80):
            self.come_to_rest()
            if is_finished(self.job.status):
                return
            if self._kubelets_work():
                continue
            if self.again_at is None:
                break
            self.now = max(self.now, self.again_at)
        self.must("ends", False, str(self.job.status))

    def _kubelets_work(self) -> bool:
        worked = self.group is not None and not self.group.status.phase
        self.admit()
        for name, pod in list(self.pods.items()):
            kind, main = self.births[pod.metadata.uid].task.type, main_container(pod)
            if pod.metadata.deletion_timestamp:
                self.removed(name)
            elif pod.status.phase == "Pending":
                self.start(name)
            elif is_alive(pod) and kind != PS:
                self.wait(1)
                self.exit(name, 0)
            elif main and main.state.terminated and pod.status.phase == "Running":
                self.restart_in_place(name)
            else:
                continue
            worked = True
        return worked


def is_alive(pod: Pod) -> bool:
    """Whether the program in a pod runs."""
    main = main_container(pod)
    return bool(main and main.state.running)


def _is_suspended(status: TFJobStatus) -> bool:
    return any(one.type == "Suspended" and one.status == "True" for one in status.conditions)


def _through_json(status: TFJobStatus) -> TFJobStatus:
    return msgspec.json.decode(msgspec.json.encode(status), type=TFJobStatus)
