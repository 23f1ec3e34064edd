"""Restart by root cause: which task ended first, whether it can be retried, and which tasks restart with it.

TensorFlow tasks fail when a peer dies: a killed worker makes the chief exit 1 up to ten seconds later. On its own, the
chief's exit is a permanent error, and the job would fail. So after an exit that looks permanent, the plan waits for a
settling time from when it first sees the exit (a node may report late, and its clock may be wrong). If another task
turns out to have been lost or killed earlier, that one is the cause.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tfjob.api.dialect import BATCH, origin
from tfjob.api.types import EVALUATOR, WORKER, TFJob, TFJobStatus, Verdict
from tfjob.durations import USUAL, Durations
from tfjob.plan import events
from tfjob.plan.facts.task_state import End, TaskState, end_of
from tfjob.plan.facts.tasks import GANG, Task, gang, policy_of
from tfjob.plan.policy.backoff import absences
from tfjob.plan.policy.verdict import START_ERROR, verdict

NO_PROGRAM = ("executable file not found", "no such file or directory", "permission denied", "exec format error")
"""System errors for a missing program; the runtimes of a cluster report them with the exit code 128."""
SHELL_CODES = (126, 127)
"""The exit codes that this machine reports for a missing program, as a shell does."""


PERMANENT, RESTART, IN_PLACE, DONE = "job fails", "restart", "in place", "done"
Row = namedtuple("Row", "cause never exit_code in_place counts")
"""What happens to a task after an end, by restart policy, and whether that counts against `backoffLimit`."""
RETRY_TABLE = (
    Row("exit 0", DONE, DONE, "done (Always: in place)", "no"),
    Row("exit 1-127", PERMANENT, PERMANENT, IN_PLACE, "yes"),
    Row("exit 128-255 (signal)", PERMANENT, RESTART, IN_PLACE, "yes"),
    Row("no program to execute", PERMANENT, PERMANENT, IN_PLACE, "yes"),
    Row("OOM kill", PERMANENT, RESTART, IN_PLACE, "yes"),
    Row("second OOM kill in a row", PERMANENT, PERMANENT, IN_PLACE, "yes"),
    Row("pod failed without an exit code", PERMANENT, RESTART, RESTART, "yes"),
    Row("eviction, preemption, node loss", RESTART, RESTART, RESTART, "no"),
    Row("pod deleted or lost", RESTART, RESTART, RESTART, "no"),
)
TfJobRow = namedtuple("TfJobRow", "cause master worker ps")
"""What happens to a task of a TfJob of tensorflow.org, where the type of the task decides."""
TF_JOB_TABLE = (
    TfJobRow("exit 0", "job succeeds", DONE, RESTART),
    TfJobRow("exit 1-127", PERMANENT, RESTART, RESTART),
    TfJobRow("exit 128-255 (signal)", RESTART, RESTART, RESTART),
    TfJobRow("no program to execute", PERMANENT, RESTART, RESTART),
    TfJobRow("OOM kill", RESTART, RESTART, RESTART),
    TfJobRow("second OOM kill in a row", PERMANENT, PERMANENT, PERMANENT),
    TfJobRow("pod evicted, deleted or lost", RESTART, RESTART, RESTART),
)


@dataclass(frozen=True)
class Failure:
    """A task that ended without success."""

    view: TaskState
    end: End

    @property
    def task(self) -> Task:
        return self.view.task

    @property
    def second(self) -> datetime:
        """When it ended, as precisely as Kubernetes reports it: within one second the order is unknown."""
        return self.end.time.replace(microsecond=0)


@dataclass(frozen=True)
class Settle:
    """Wait from `since` until `until` for a root cause; if there is none, `first` is the cause."""

    first: Verdict
    since: datetime
    until: datetime


@dataclass(frozen=True)
class Fail:
    """The job is over."""

    reason: str
    cause: Verdict


@dataclass(frozen=True)
class Again:
    """Restart tasks: the whole gang, or `tasks` alone, or both.

    `counted` is how much of `backoffLimit` it uses. `incident` is False for consequences of a recorded incident.
    `followers` may have failed because of the cause. `oom` are the names of tasks that ran out of memory.
    """

    cause: Verdict
    gang: bool
    tasks: frozenset[Task]
    counted: int = 0
    incident: bool = True
    followers: frozenset[Task] = frozenset()
    oom: frozenset[str] = frozenset()


Decision = Settle | Fail | Again


def decide(
    job: TFJob, status: TFJobStatus, views: Sequence[TaskState], now: datetime, durations: Durations = USUAL
) -> Decision | None:
    """Decide what follows from the tasks that ended without success; None if there are none."""
    retryable: list[Failure] = []
    permanent: list[Failure] = []
    for failure in _failures(views):
        if is_retryable(job, status, failure, durations):
            retryable.append(failure)
        elif not _tolerated(job, failure):
            permanent.append(failure)
    failures = [*retryable, *permanent]
    if not permanent:
        return _again(job, status, _root(retryable), failures) if retryable else None
    first = permanent[0]
    causes = [item for item in retryable if _is_cause(job, item.end.exit_code) and _explains(item, first)]
    if causes:
        return _again(job, status, _root(causes), failures)
    earlier = _earlier_cause(job, status, views, first, durations)
    if earlier is not None:
        return _rerun(job, earlier, failures, incident=False)
    since = settling_since(status, now)
    settled = since + (durations.settle_nodes if _is_elsewhere(views, first) else settling_time(job, durations))
    if now < settled and not _all_ended(job, views, first):
        return Settle(_verdict(first), since, settled)
    earlier = _aftershock(job, status, first, durations)
    if earlier is not None:
        return _rerun(job, earlier, failures, incident=False)
    return Fail(events.OOM_KILLED if _is_oom(first.end) else events.REPLICA_FAILED, _verdict(first))


def is_retryable(job: TFJob, status: TFJobStatus, failure: Failure, durations: Durations) -> bool:
    """Return whether a failure, on its own, is retried: the retry table as a function."""
    end, policy = failure.end, policy_of(job, failure.task)
    # A batch/v1 Job replaces a failed pod whatever its exit code.
    habits = origin(job)
    if end.infrastructure or habits.api_version == BATCH:
        return True
    if policy == "Never":
        return False
    if _is_oom(end) and (policy == "ExitCode" or habits.restarts_by_role):
        soon = end.started is None or end.time - end.started <= durations.oom_window
        return not (soon and failure.task.name in status.oom_killed)
    if policy != "ExitCode":
        # The kubelet has given up on the pod. That of this machine does so if the program could not start three times.
        return habits.restarts_by_role or end.reason != START_ERROR
    return (end.exit_code is None or end.exit_code >= 128) and not _has_no_program(end)


def runs_again(job: TFJob, status: TFJobStatus) -> frozenset[str]:
    last = status.last_restart
    if last is None:
        return frozenset()
    together = frozenset(task.name for task in gang(job)) if last.scope == GANG else frozenset[str]()
    return together | status.task_restarts.keys()


def settling_time(job: TFJob, durations: Durations) -> timedelta:
    """Return how long to wait for the cause of a failure that looks permanent; failures in that time share a cause."""
    return durations.settle_gang if gang(job) else durations.settle_tasks


def settling_since(status: TFJobStatus, now: datetime) -> datetime:
    """Return when the settling time began: now, unless an earlier pass recorded it."""
    since = status.last_reconcile_time if status.reason == events.SETTLING else None
    return min(since, now) if since else now


def _failures(views: Sequence[TaskState]) -> list[Failure]:
    """Return the ends without success, earliest first.

    A node that does not answer may come back with its pods: it only explains why another task failed.
    """
    found = [Failure(view, view.end) for view in views if view.end and not view.end.succeeded]
    explained = any(not failure.end.infrastructure for failure in found)
    return sorted(
        (failure for failure in found if explained or failure.end.reason != events.NODE_NOT_READY),
        key=lambda failure: failure.end.time,
    )


def _again(job: TFJob, status: TFJobStatus, root: Failure, failures: Sequence[Failure]) -> Decision:
    counted = 0 if root.end.infrastructure else 1
    if origin(job).api_version == BATCH:
        # The pods of a batch/v1 Job are independent: every failure counts.
        counted = sum(not failure.end.infrastructure for failure in failures)
    limit = job.spec.run_policy.backoff_limit
    if counted and limit is not None and status.retries + counted > limit:
        return Fail(events.BACKOFF_LIMIT_EXCEEDED, _verdict(root))
    return _rerun(job, _verdict(root), failures, counted=counted)


def _rerun(
    job: TFJob, cause: Verdict, failures: Sequence[Failure], *, counted: int = 0, incident: bool = True
) -> Again:
    members = gang(job)
    tasks = frozenset(failure.task for failure in failures)
    return Again(
        cause,
        gang=not tasks.isdisjoint(members),
        tasks=tasks - members,
        counted=counted,
        incident=incident,
        followers=frozenset(
            failure.task
            for failure in failures
            if not failure.end.infrastructure
            and failure.task.type != EVALUATOR
            and failure.task.name != cause.replica
            and origin(job).api_version != BATCH
        ),
        oom=frozenset(failure.task.name for failure in failures if _is_oom(failure.end)),
    )


def _root(failures: Sequence[Failure]) -> Failure:
    """Return the root cause: a loss of infrastructure, else the first failure; an evaluator only if it is alone."""
    return min(failures, key=lambda item: (item.task.type == EVALUATOR, not item.end.infrastructure))


def _explains(cause: Failure, first: Failure) -> bool:
    """Return whether `cause` may explain `first`: it ended no later, or was lost. No task depends on an evaluator."""
    return cause.task.type != EVALUATOR and (cause.end.infrastructure or cause.second <= first.second)


def _is_cause(job: TFJob, exit_code: int | None) -> bool:
    """Return whether an end that is retried may be the cause of another one.

    In a TfJob, a worker is retried even after its own error; that error is not the cause of the chief's error.
    """
    return not origin(job).restarts_by_role or exit_code is None or exit_code >= 128


def _earlier_cause(
    job: TFJob, status: TFJobStatus, views: Sequence[TaskState], first: Failure, durations: Durations
) -> Verdict | None:
    """Return a cause that was already answered with a restart, by us or by the kubelet, while `first` ran."""
    started = first.end.started
    if started is None:
        return None
    for cause, repaired in _repaired_causes(status, views):
        if cause.time is None or not _may_concern(job, cause, first):
            continue
        # A loss is noticed late, so its consequence may have ended earlier.
        slack = settling_time(job, durations) if cause.exit_code is None else timedelta()
        ended_first = cause.time.replace(microsecond=0) - slack <= first.second
        if started <= cause.time and ended_first and first.end.time <= repaired + durations.aftermath:
            return cause
    return _absent_peer(job, status, first, started, durations)


def _may_concern(job: TFJob, cause: Verdict, first: Failure) -> bool:
    """Return whether `cause` is the end of another task on which `first` depends."""
    own = cause.replica == first.task.name
    return not own and not cause.replica.startswith(EVALUATOR.lower()) and _is_cause(job, cause.exit_code)


def _absent_peer(
    job: TFJob, status: TFJobStatus, first: Failure, started: datetime, durations: Durations
) -> Verdict | None:
    """Return a peer of `first` that was waiting to restart while `first` ran.

    None for an evaluator, which needs no peer; for a gang, which waits as a whole; for an OOM kill, which has its own
    cause; and for a TfJob, where a task also waits after its own error.
    """
    if first.task.type == EVALUATOR or _is_oom(first.end) or gang(job) or origin(job).restarts_by_role:
        return None
    away = [
        (until, task, since)
        for task, since, until in absences(job, status, durations)
        if task != first.task and task.type != EVALUATOR
        # The kubelet reports whole seconds: within one second, the order is unknown.
        if since.replace(microsecond=0) <= first.second and started < until.replace(microsecond=0)
        if first.end.time <= until + durations.aftermath
    ]
    if not away:
        return None
    _, task, since = max(away)
    text = events.NOT_BACK.format(task=task.name)
    return Verdict(replica=task.name, reason=events.HELD_BACK, message=text, time=since)


def _aftershock(job: TFJob, status: TFJobStatus, first: Failure, durations: Durations) -> Verdict | None:
    """Return the loss of another task before `first` started that may still be the cause of its failure.

    After a loss, a peer needs seconds until it connects to the new task (gRPC retries with a growing delay). A chief
    that starts sooner fails because of that. A program with its own error is also retried within that minute.
    """
    last, started = status.last_restart, first.end.started
    if last is None or last.cause.time is None or started is None or gang(job) or first.task.type == EVALUATOR:
        return None
    if _is_oom(first.end) or _has_no_program(first.end) or not _may_concern(job, last.cause, first):
        return None
    repaired = last.not_before or last.cause.time
    is_soon = last.cause.time < started and first.end.time <= repaired + durations.aftermath
    return last.cause if is_soon else None


def _repaired_causes(status: TFJobStatus, views: Sequence[TaskState]) -> Iterator[tuple[Verdict, datetime]]:
    """Yield ends that were answered with a restart, and when the task could restart."""
    last = status.last_restart
    if last and last.cause.time:
        yield last.cause, last.not_before or last.cause.time
    for view in views:
        if (ended := view.last_end) and ended.finished_at and ended.exit_code:
            yield verdict(view.task, view.attempt - 1, end_of(ended, ended.finished_at)), ended.finished_at


def _is_elsewhere(views: Sequence[TaskState], first: Failure) -> bool:
    """Return whether a task on another node may still turn out to be the cause."""
    here = _node(first.view)
    possible = (view for view in views if not (view.end or view.completed or view.task.type == EVALUATOR))
    return any(_node(view) not in ("", here) for view in possible)


def _node(view: TaskState) -> str:
    name: str = view.pod.spec.get("nodeName") or "" if view.pod else ""
    return name


def _all_ended(job: TFJob, views: Sequence[TaskState], first: Failure) -> bool:
    """Return whether every task that could be the cause has ended."""
    members = gang(job)
    concerned = [view for view in views if view.task in members] if first.task in members else views
    return all(view.end or view.completed for view in concerned)


def _tolerated(job: TFJob, failure: Failure) -> bool:
    """Return whether a worker of an elastic job may fail without failing the job, as in v1.9."""
    return job.spec.enable_dynamic_worker and failure.task.type == WORKER and policy_of(job, failure.task) != "ExitCode"


def _has_no_program(end: End) -> bool:
    is_missing = end.exit_code in SHELL_CODES or any(words in end.message for words in NO_PROGRAM)
    return is_missing and end.reason == START_ERROR


def _is_oom(end: End) -> bool:
    return end.reason == events.OOM_KILLED


def _verdict(failure: Failure) -> Verdict:
    return verdict(failure.task, failure.view.attempt, failure.end)
