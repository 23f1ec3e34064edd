"""A tiny cluster that does what kubelets, users and crashes do, and has a judge look at what a plan does to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from support.plan.builders import T0
from support.plan.model_invariants import Judge, is_alive
from tfjob.api.objects import (
    ConfigMap,
    ContainerRunning,
    ContainerState,
    ContainerStatus,
    ContainerTerminated,
    ContainerWaiting,
    Pod,
    PodCondition,
    PodGroup,
    PodGroupStatus,
    PodStatus,
    Service,
)
from tfjob.api.types import PS, TFJob, TFJobStatus
from tfjob.controller.actions import Action, Create, Delete, DeleteOwner, Update
from tfjob.controller.kind import Observation, Rejection, Repetition
from tfjob.durations import Durations
from tfjob.plan.facts.conditions import is_finished
from tfjob.plan.facts.tasks import desired, main_container, task_of
from tfjob.plan.plan import JobPlan, plan

Decide = Callable[[TFJob, Observation, datetime], JobPlan]
CarryOut = Callable[[Sequence[Action]], Iterable[Action]]
LONG = timedelta(days=2)


@dataclass
class ModelCluster:
    """One job and its children."""

    job: TFJob
    decide: Decide = plan
    judge: Judge = field(default_factory=Judge)
    now: datetime = T0
    gang_scheduled: bool = False
    group: PodGroup | None = None
    pods: dict[str, Pod] = field(default_factory=dict)
    services: dict[str, Service] = field(default_factory=dict)
    config_maps: dict[str, ConfigMap] = field(default_factory=dict)
    last_seen: list[Pod] = field(default_factory=list)
    refusing: str = ""
    """Why the cluster makes no pods at present."""
    rejections: dict[tuple[str, str], Rejection] = field(default_factory=dict)
    repeated: dict[str, Repetition] = field(default_factory=dict)
    """With the rejections, all that a controller knows and the cluster does not."""
    half_deleted: set[str] = field(default_factory=set)
    """Pods whose deletion was cut short: they have a deletion timestamp, and only another deletion removes them."""
    lost_nodes: set[str] = field(default_factory=set)
    failures: int = 0
    gone: bool = False
    again_at: datetime | None = None

    # --- the controller -----------------------------------------------------------------------------------------

    def reconcile(self, carry_out: CarryOut = list, *, status_fails: bool = False, lagging: bool = False) -> bool:
        """A pass; it may see the pods of the pass before, fail to write, or carry out less or more than was decided.

        Returns whether it changed or did anything.
        """
        if self.gone:
            return False
        seen = self._observe(lagging)
        outcome = self.decide(self.job, seen, self.now)
        self._check_repeatable(seen, outcome)
        if status_fails:
            return True
        before, known = self.job.status, dict(self.rejections)
        self.again_at = outcome.again_at
        status = _through_json(outcome.status)
        self.judge.write(self.job, status, seen.of(Pod), self.lost_nodes)
        self.job = replace(self.job, status=status)
        wanted = {_name(action) for action in outcome.actions}
        self.rejections = {name: rejection for name, rejection in self.rejections.items() if name in wanted}
        for action in carry_out(list(outcome.actions)):
            self._act(action)
        # To ask again for what was refused is no news.
        return self.job.status != before or self.rejections != known or bool(self._news(outcome.actions))

    def come_to_rest(self) -> None:
        """Passes while nothing happens: after a few there is nothing left to write or to do."""
        passes = (self.reconcile() for _ in range(6))
        self.judge.must("rests", not all(passes))
        self._check_rest()

    def forget(self) -> None:
        """The controller starts again and knows nothing but what the cluster tells."""
        self.rejections, self.repeated, self.again_at = {}, {}, None
        self.last_seen = self._own_pods()

    def _observe(self, lagging: bool = False) -> Observation:
        if not lagging:
            self.last_seen = self._own_pods()
        return Observation(
            {
                Pod: list(self.last_seen),
                Service: list(self.services.values()),
                PodGroup: [self.group] if self.group else [],
                ConfigMap: list(self.config_maps.values()),
            },
            rejections=dict(self.rejections),
            repeated_deletions=dict(self.repeated),
            lost_nodes=frozenset(self.lost_nodes),
        )

    def _own_pods(self) -> list[Pod]:
        return [pod for pod in self.pods.values() if self.judge.belongs(pod, self.job)]

    def _news(self, actions: Iterable[Action]) -> list[Action]:
        return [action for action in actions if _name(action) not in self.rejections]

    def _check_repeatable(self, seen: Observation, outcome: JobPlan) -> None:
        """A pass that died right after its status write is repeated and decides the same."""
        written = replace(self.job, status=_through_json(outcome.status))
        again = self.decide(written, seen, self.now)
        if again.status != written.status:  # the words take longer than the check
            self.judge.must("repeatable", False, f"{again.status} after {written.status}")

    def _check_rest(self) -> None:
        """What is at rest says why, and stays at rest until the time that its plan has named."""
        if self.gone:
            return
        self.judge.rest(self.job, self._own_pods(), self._obstacles())
        before = self.now + LONG if self.again_at is None else self.again_at - timedelta(milliseconds=1)
        outcome = self.decide(self.job, self._observe(), before)
        quiet = _through_json(outcome.status) == self.job.status and not self._news(outcome.actions)
        if not quiet:
            self.judge.must("in time", False, f"at {before}, to be woken at {self.again_at}: {outcome}")

    def _obstacles(self) -> set[str]:
        """The reasons that the cluster gives for what does not run."""
        found = {rejection.reason for rejection in self.rejections.values()}
        if self.group and not self.group.status.phase:
            found.add("PodGroupPending")
        waited_for = (pod for pod in self._own_pods() if not self.judge.is_done(self.job, self.judge.task(pod)))
        for pod in waited_for:
            if pod.metadata.deletion_timestamp:
                found |= {"NodeUnreachable"} if pod.spec.get("nodeName") in self.lost_nodes else set()
                continue
            main = main_container(pod)
            found |= {"Restarting"} if main and main.state.terminated and pod.status.phase == "Running" else set()
            found |= {main.state.waiting.reason} if main and main.state.waiting else set()
            found |= {one.reason for one in pod.status.conditions if one.type == "PodScheduled"}
        return found

    def _act(self, action: Action) -> None:
        if self.gone:
            return
        self.judge.must("hands off", not self.job.metadata.deletion_timestamp, str(action))
        match action:
            case Create(child=Pod() as child):
                self._create(child)
            case Create(child=Service() as child):
                self.services.setdefault(child.metadata.name, child)
            case Create(child=ConfigMap() as child):
                self.config_maps.setdefault(child.metadata.name, child)
            case Create(child=PodGroup() as child):
                self.group = self.group or child
            case Update(child=PodGroup() as child):
                self.group = replace(child, status=self.group.status) if self.group else None
            case Delete("Pod", name, uid, overdue):
                if overdue is not None:
                    self._count_repetition(uid)
                self._delete(name, uid)
            case Delete("PodGroup", _, _):
                self.group = None
            case Delete("Service", name, _):
                self.services.pop(name, None)
            case DeleteOwner():
                self.judge.must("final", is_finished(self.job.status), "the job is removed before its end")
                self.delete_job()
                self.gone = True
            case _:
                raise NotImplementedError(action)

    def _create(self, child: Pod) -> None:
        there = self.pods.get(child.metadata.name)
        taken = there is not None and not self.judge.belongs(there, self.job)
        if self.refusing or taken:
            name, reason = ("Pod", child.metadata.name), self.refusing or "NameTaken"
            since = self.rejections[name].since if name in self.rejections else self.now
            self.rejections[name] = Rejection(reason, "not now", since)
            return
        self.rejections.pop(("Pod", child.metadata.name), None)
        if there:
            return
        task = task_of(child)
        assert task is not None
        if self.gang_scheduled:
            self.judge.must("group first", self.group and self.group.status.phase, task.name)
        uid = f"uid-{len(self.judge.births)}"
        self.judge.births[uid] = self.judge.creation(self.job, task, self.pods.values())
        self.judge.latest[task] = uid
        metadata = replace(child.metadata, uid=uid, creation_timestamp=self.now)
        self.pods[child.metadata.name] = replace(child, metadata=metadata, status=PodStatus(phase="Pending"))

    def _delete(self, name: str, uid: str) -> None:
        pod = self.pods.get(name)
        if pod is not None and pod.metadata.uid == uid:
            self.judge.deletion(self.job, pod)
            if uid in self.half_deleted:
                self.removed(name)
            else:
                self.someone_deletes(name)

    def _count_repetition(self, uid: str) -> None:
        before = self.repeated.get(uid, Repetition(0, self.now))
        waits = Durations().repeat_deletion
        pause = waits[min(before.count, len(waits) - 1)]
        # A request may be sent twice.
        self.judge.must("patient", self.now == before.last or self.now >= before.last + pause, uid)
        self.repeated[uid] = Repetition(before.count + 1, self.now)

    # --- the kubelets and the scheduler -------------------------------------------------------------------------

    def start(self, name: str, node: str = "node-0") -> None:
        """The container of a pending pod starts."""
        pod = self.pods[name]
        self.judge.start(pod, self.pods.values())
        self.pods[name] = replace(pod, spec={**pod.spec, "nodeName": node}, status=replace(pod.status, conditions=[]))
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
        """The node throws a pod out, or turns it away before it ran."""
        if is_alive(self.pods[name]):
            self.exit(name, 137)
        self._fail(name, reason="Evicted")

    def preempt(self, name: str) -> None:
        """The scheduler takes the place of a running pod."""
        self.exit(name, 143)
        target = PodCondition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")
        self._fail(name, conditions=[target])

    def wait_for(self, name: str, reason: str) -> None:
        """A pending pod cannot start, and the cluster says why."""
        pod = self.pods[name]
        if reason == "Unschedulable":
            condition = PodCondition(type="PodScheduled", status="False", reason=reason)
            self.pods[name] = replace(pod, status=PodStatus(phase="Pending", conditions=[condition]))
        else:
            self.failures += 1
            self._set(name, "Pending", ContainerState(waiting=ContainerWaiting(reason=reason)))

    def someone_deletes(self, name: str) -> None:
        """A pod is asked to go."""
        pod = self.pods[name]
        if pod.metadata.deletion_timestamp is None:
            self.pods[name] = replace(pod, metadata=replace(pod.metadata, deletion_timestamp=self.now))

    def cut_short(self, name: str) -> None:
        """The deletion of a pod stops after the first of its two writes."""
        self.half_deleted.add(self.pods[name].metadata.uid)

    def removed(self, name: str) -> None:
        """A pod is gone, and its processes with it."""
        self.half_deleted.discard(self.pods[name].metadata.uid)
        del self.pods[name]

    def admit(self) -> None:
        """The gang scheduler lets the pods of the group come."""
        if self.group is not None:
            self.group = replace(self.group, status=PodGroupStatus(phase="Inqueue"))

    def _fail(self, name: str, reason: str = "", conditions: Sequence[PodCondition] = ()) -> None:
        self.failures += 1
        pod = self.pods[name]
        status = replace(pod.status, phase="Failed", reason=reason, conditions=list(conditions))
        self.pods[name] = replace(pod, status=status)

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
            self.judge.scalings[task] += 1

    def delete_job(self) -> None:
        """The job is asked to go, and its children with it."""
        self.job = replace(self.job, metadata=replace(self.job.metadata, deletion_timestamp=self.now))
        for name in self.pods:
            self.someone_deletes(name)

    def make_again(self) -> None:
        """Another job of the same name and spec; pods of the one before may still be there."""
        uid = f"{self.job.metadata.uid}-again"
        metadata = replace(self.job.metadata, uid=uid, deletion_timestamp=None, generation=1)
        self.job = replace(self.job, metadata=metadata, status=TFJobStatus())
        self.services, self.config_maps, self.group, self.gone = {}, {}, None, False
        self.forget()

    def left_by_v1_9(self) -> None:
        """All that we wrote is forgotten, as if training-operator v1.9 had run the job until now."""
        times = {"last_update_time": self.now, "last_transition_time": self.now}
        conditions = [replace(condition, **times) for condition in self.job.status.conditions]
        self.job = replace(self.job, status=TFJobStatus(conditions=conditions, start_time=self.job.status.start_time))
        for name, pod in self.pods.items():
            self.pods[name] = replace(pod, metadata=replace(pod.metadata, annotations={}))

    def wait(self, seconds: float) -> None:
        """Time passes, or a clock is set back."""
        self.now += timedelta(seconds=seconds)

    def _edit(self, job: TFJob) -> None:
        self.job = replace(job, metadata=replace(job.metadata, generation=job.metadata.generation + 1))

    # --- the good end -------------------------------------------------------------------------------------------

    def run_to_the_end(self) -> None:
        """From now on every program exits 0 and nothing goes wrong: the job must end, woken by nothing but its plan."""
        self.refusing = ""
        self.lost_nodes.clear()
        self.suspend(False)
        for _ in range(80):
            self.come_to_rest()
            if is_finished(self.job.status) or self.gone:
                return
            if self._kubelets_work():
                continue
            if self.again_at is None:
                break
            self.now = max(self.now, self.again_at)
        self.judge.must("ends", False, str(self.job.status))

    def _kubelets_work(self) -> bool:
        worked = self.group is not None and not self.group.status.phase
        self.admit()
        for name, pod in list(self.pods.items()):
            kind, main = self.judge.task(pod).type, main_container(pod)
            if pod.metadata.uid in self.half_deleted and self.judge.belongs(pod, self.job):
                continue
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


def _name(action: Action) -> tuple[str, str] | None:
    """How a rejection names a child that is to be made."""
    return (action.child.kind, action.child.metadata.name) if isinstance(action, Create) else None


def _through_json(status: TFJobStatus) -> TFJobStatus:
    return msgspec.json.decode(msgspec.json.encode(status), type=TFJobStatus)
