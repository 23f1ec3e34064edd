"""What no plan may ever do to a job, checked against what is true of its pods and not what the plan says of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from msgspec.structs import replace

from tfjob.api.objects import Pod
from tfjob.api.types import TFJob, TFJobStatus
from tfjob.plan.facts.conditions import is_finished
from tfjob.plan.facts.task_state import INFRASTRUCTURE_REASONS
from tfjob.plan.facts.tasks import Task, attempts_due, desired, gang_types, made_for, main_container, policy_of

LOSSES = INFRASTRUCTURE_REASONS | {"PodLost", "PodDeleted", "NodeNotReady", "PreemptionByScheduler", "Resized"}
INVARIANTS = {
    "no overlap": "the runs of one index never overlap",
    "done stays done": "a finished replica does not run again within its attempt",
    "monotone": "attempt, restarts (of all, and of each task) and retries never fall",
    "final": "an end is final",
    "one end": "succeeded and failed exclude each other",
    "repeatable": "a second look at the same things, as after a crash, writes the same status",
    "rests": "when nothing changes there is soon nothing to write or to do",
    "in time": "before the moment at which a plan asks to be woken, time alone changes nothing",
    "reason": "a job that waits for something says in its status for what",
    "hands off": "nothing is written or done for a job that is being deleted",
    "one generation": "no pod of a gang is made while one of an older attempt exists",
    "bystanders": "a running task that is no member of a gang is not stopped while the job goes on",
    "limit": "backoffLimit is never exceeded",
    "record first": "a failure is written down before its pod is deleted",
    "ends": "when all programs exit 0 the job ends, woken by nothing but its plan",
    "patient": "the deletion of a pod is not repeated before the pause since the last time is over",
    "group first": "no pod is made before the gang scheduler has admitted its group",
}


class Violated(AssertionError):
    """A plan did what it may never do."""


@dataclass(frozen=True)
class Birth:
    """What is known of the making of a pod: for which job, and for which of the lives of its task."""

    task: Task
    job: str
    attempt: int
    resumes: int
    scalings: int


@dataclass
class Judge:
    """Remembers the true history of a job, and checks every write and every action against it.

    With `only` it looks for one invariant alone.
    """

    only: str | None = None
    births: dict[str, Birth] = field(default_factory=dict)
    latest: dict[Task, str] = field(default_factory=dict)
    done: dict[Task, Birth] = field(default_factory=dict)
    scalings: Counter[Task] = field(default_factory=Counter)
    resumes: int = 0
    incidents: set[tuple[str, datetime]] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    """Pods that were given up while nobody knew whether they ran."""

    def must(self, invariant: str, holds: object, detail: str = "") -> None:
        """Checks one of the invariants, unless another one alone is looked for."""
        if not holds and self.only in (None, invariant):
            raise Violated(f"{INVARIANTS[invariant]}: {detail}")

    def task(self, pod: Pod) -> Task:
        """Whose pod it is."""
        return self.births[pod.metadata.uid].task

    def belongs(self, pod: Pod, job: TFJob) -> bool:
        """Whether a pod is of this job, and not of an earlier one of its name."""
        return self.births[pod.metadata.uid].job == job.metadata.uid

    # --- what is judged -----------------------------------------------------------------------------------------

    def write(self, job: TFJob, new: TFJobStatus, seen: Collection[Pod], lost_nodes: Collection[str]) -> None:
        """A status is written by a pass that has seen these pods."""
        old = job.status
        self.must("hands off", new == old or not job.metadata.deletion_timestamp, "a status is written")
        for name in ("attempt", "restarts", "retries"):
            self.must("monotone", getattr(new, name) >= getattr(old, name), name)
        for name, count in old.task_restarts.items():
            self.must("monotone", new.task_restarts.get(name, 0) >= count, f"restarts of {name}")
        ends = {one.type for one in new.conditions if one.status == "True"} & {"Succeeded", "Failed"}
        self.must("one end", len(ends) < 2)
        # Whether what must go is gone, of which v1alpha1 tells, is no part of the end.
        self.must("final", new == old or not is_finished(old) or replace(new, cleaning=old.cleaning) == old)
        self._note_completions(job, seen)
        self._note_losses(job, new, seen, lost_nodes)
        if _is_suspended(old) and not _is_suspended(new) and not is_finished(new):
            self.resumes += 1
        self._note_incident(job, new)

    def creation(self, job: TFJob, task: Task, present: Collection[Pod]) -> Birth:
        """A pod is made beside those that are present."""
        self.must("final", not is_finished(job.status), "a pod is made afterwards")
        birth = self.birth(job, task)
        self.must("done stays done", not self.is_done(job, task), task.name)
        types = gang_types(job)
        for pod in present if task.type in types else ():
            other = self.births[pod.metadata.uid]
            together = other.task.type in types and other.job == birth.job
            same = (other.attempt, other.resumes) == (birth.attempt, birth.resumes)
            self.must("one generation", same or not together, f"{task.name} beside {pod.metadata.name}")
        return birth

    def deletion(self, job: TFJob, pod: Pod) -> None:
        """A plan removes a pod."""
        birth, main = self.births[pod.metadata.uid], main_container(pod)
        task, wanted = birth.task, birth.task in set(desired(job))
        goes_on = wanted and not (is_finished(job.status) or job.spec.run_policy.suspend)
        if goes_on and main and main.state.terminated and main.state.terminated.exit_code:
            self.must("record first", attempts_due(job, job.status)(task) > made_for(pod), task.name)
        if goes_on and birth == self.birth(job, task) and task.type not in gang_types(job):
            # To repeat a deletion that somebody else asked for stops nothing that would go on.
            leaves = pod.metadata.deletion_timestamp is not None
            self.must("bystanders", leaves or not is_alive(pod) or pod.metadata.uid in self.lost, task.name)

    def start(self, pod: Pod, present: Iterable[Pod]) -> None:
        """The program of a pod starts.

        A job of the first operator names its pods by an id of its own, so what an earlier job left is beside them.
        """
        birth = self.births[pod.metadata.uid]
        task = birth.task
        for other in present:
            before = self.births[other.metadata.uid]
            if other is not pod and (before.task, before.job) == (task, birth.job):
                self.must("no overlap", not is_alive(other), task.name)

    def rest(self, job: TFJob, pods: Collection[Pod], obstacles: Collection[str]) -> None:
        """Nothing is left to do for now; `obstacles` are the reasons that the cluster gives for what does not run."""
        status = job.status
        if is_finished(status) or job.metadata.deletion_timestamp:
            return
        up = {self.task(pod) for pod in pods if is_alive(pod) and not pod.metadata.deletion_timestamp}
        over = {task for task in self.done if self.is_done(job, task)}
        if job.spec.enable_dynamic_worker:  # which goes on without the workers that failed
            over |= {self.task(pod) for pod in pods if pod.status.phase == "Failed"}
        if missing := set(desired(job)) - up - over:
            names = ", ".join(sorted(task.name for task in missing))
            self.must("reason", status.reason, f"{status.state} without {names}, and no word of it")
            if status.state != "Suspended" and status.reason != "Settling" and obstacles:
                self.must("reason", status.reason in obstacles, f"{status.reason}, but {sorted(obstacles)}")

    # --- what is true -------------------------------------------------------------------------------------------

    def birth(self, job: TFJob, task: Task) -> Birth:
        """What a pod of a task would be born for now."""
        attempt = job.status.attempt if task.type in gang_types(job) else 0
        return Birth(task, job.metadata.uid, attempt, self.resumes, self.scalings[task])

    def is_done(self, job: TFJob, task: Task) -> bool:
        """Whether a task has finished in its present life."""
        return self.done.get(task) == self.birth(job, task)

    def _note_incident(self, job: TFJob, status: TFJobStatus) -> None:
        last = status.last_restart
        if last and last.time and last.cause.exit_code is not None and last.cause.reason not in LOSSES:
            self.incidents.add((job.metadata.uid, last.time))
        limit = job.spec.run_policy.backoff_limit
        if limit is not None and status.state != "Suspended" and not is_finished(status):
            counted = sum(uid == job.metadata.uid for uid, _ in self.incidents)
            self.must("limit", counted <= limit and status.retries <= limit)

    def _note_losses(self, job: TFJob, new: TFJobStatus, seen: Iterable[Pod], lost_nodes: Collection[str]) -> None:
        for pod in seen:
            if pod.spec.get("nodeName") in lost_nodes and attempts_due(job, new)(self.task(pod)) > made_for(pod):
                self.lost.add(pod.metadata.uid)

    def _note_completions(self, job: TFJob, seen: Iterable[Pod]) -> None:
        """What a pass has seen to be done is done, for as long as that attempt lasts."""
        for pod in seen:
            birth, main = self.births[pod.metadata.uid], main_container(pod)
            ended = main.state.terminated if main else None
            # A task that runs for as long as its job does is never done.
            ends = policy_of(job, birth.task) != "Always"
            done = ends and pod.status.phase == "Succeeded" and ended and ended.exit_code == 0
            present = birth == self.birth(job, birth.task) and self.latest[birth.task] == pod.metadata.uid
            if done and present and not pod.metadata.deletion_timestamp:
                self.done[birth.task] = birth


def is_alive(pod: Pod) -> bool:
    """Whether the program in a pod runs."""
    main = main_container(pod)
    return bool(main and main.state.running)


def _is_suspended(status: TFJobStatus) -> bool:
    return any(one.type == "Suspended" and one.status == "True" for one in status.conditions)
