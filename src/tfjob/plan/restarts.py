"""Restart by root cause: who ended first, whether that may be tried again, and who must run again with it.

TensorFlow peers die of a peer's death: a killed worker makes the chief exit 1 up to ten seconds later. Judged one by
one, the chief's exit is a permanent error and the job fails. So an exit that looks permanent is held for a settling
time, and if another task turns out to have been lost or killed before it, that one is the cause.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tfjob.api.origin import BATCH, origin
from tfjob.api.types import WORKER, TFJob, TFJobStatus, Verdict
from tfjob.plan.gangs import gang
from tfjob.plan.tasks import End, Task, View, end_of, main_container
from tfjob.plan.verdict import verdict

SETTLE_GANG, SETTLE_TASKS = timedelta(seconds=15), timedelta(seconds=5)
WAITS = tuple(timedelta(seconds=seconds) for seconds in (0, 10, 20, 40, 80, 160, 300))
STREAK_RESET = timedelta(minutes=10)
OOM_WINDOW = timedelta(minutes=30)
OOM_KILLED = "OOMKilled"


@dataclass(frozen=True)
class Row:
    """One line of the retry table: what happens to a task that ended so under each policy."""

    cause: str
    never: str
    exit_code: str
    in_place: str
    counts: str


PERMANENT, RESTART, IN_PLACE = "job fails", "restart", "in place"
RETRY_TABLE = (
    Row("exit 0", "done", "done", "done (Always: in place)", "no"),
    Row("exit 1-127", PERMANENT, PERMANENT, IN_PLACE, "yes"),
    Row("exit 128-255 (signal)", PERMANENT, RESTART, IN_PLACE, "yes"),
    Row("OOM kill, the first in a row", PERMANENT, RESTART, IN_PLACE, "yes"),
    Row("OOM kill again within 30 min", PERMANENT, PERMANENT, IN_PLACE, "yes"),
    Row("eviction, preemption, node loss", RESTART, RESTART, RESTART, "no"),
    Row("pod deleted or lost", RESTART, RESTART, RESTART, "no"),
)


@dataclass(frozen=True)
class Failure:
    """A task that ended without success."""

    view: View
    end: End

    @property
    def second(self) -> datetime:
        """When, as coarse as Kubernetes reports it: within one second the order is unknown."""
        return self.end.time.replace(microsecond=0)


@dataclass(frozen=True)
class Settle:
    """Wait until `until` for a root cause to show; `first` is to blame if none does."""

    first: Verdict
    until: datetime


@dataclass(frozen=True)
class Fail:
    """The job is over."""

    reason: str
    cause: Verdict


@dataclass(frozen=True)
class Again:
    """Run tasks again: the whole gang, or `tasks` alone. `counted` says whether it uses up `backoffLimit`."""

    cause: Verdict
    gang: bool
    tasks: frozenset[Task]
    counted: bool
    incident: bool
    oom: bool


Decision = Settle | Fail | Again


def decide(job: TFJob, status: TFJobStatus, views: Sequence[View], now: datetime) -> Decision | None:
    """What follows from the tasks that ended without success; None when there are none."""
    failures = [Failure(view, view.end) for view in views if view.end and not view.end.succeeded]
    failures.sort(key=lambda failure: failure.end.time)
    retryable = [failure for failure in failures if is_retryable(job, status, failure)]
    permanent = [failure for failure in failures if failure not in retryable and not _tolerated(job, failure)]
    if not permanent:
        return _again(job, status, retryable[0], failures) if retryable else None
    first = permanent[0]
    cause = _cause_among(retryable, first)
    if cause is not None:
        return _again(job, status, cause, failures)
    earlier = _earlier_cause(status, views, first)
    if earlier is not None:
        return Again(earlier, False, frozenset(item.view.task for item in failures), False, False, False)
    settled = first.end.time + _settling_time(job)
    alone = len(views) == 1 or all(view.end or view.completed for view in views)
    if now < settled and not alone:
        return Settle(_verdict(first), settled)
    return Fail("OOMKilled" if _is_oom(first.end) else "ReplicaFailed", _verdict(first))


def is_retryable(job: TFJob, status: TFJobStatus, failure: Failure) -> bool:
    """Whether a failure, taken alone, may be tried again: the retry table as a function."""
    end, task = failure.end, failure.view.task
    if end.infrastructure:
        return True
    if end.exit_code is None:
        return False
    policy = policy_of(job, task.type)
    if policy == "ExitCode":
        repeated_oom = _is_oom(end) and task.name in status.oom_killed and _soon_after_start(end)
        return end.exit_code >= 128 and not repeated_oom
    # A batch/v1 Job replaces a failed pod whatever its code; under the others the kubelet has given up on the pod.
    return origin(job).api_version == BATCH or policy in ("OnFailure", "Always")


def policy_of(job: TFJob, replica_type: str) -> str:
    """The restart policy of a type; unset means Never."""
    return job.spec.tf_replica_specs[replica_type].restart_policy or "Never"


def wait_before(status: TFJobStatus, now: datetime) -> tuple[int, timedelta]:
    """The streak of restarts that the next one belongs to, and how long it waits."""
    last = status.last_restart
    quiet = last is None or last.not_before is None or now - last.not_before >= STREAK_RESET
    streak = 0 if quiet or last is None else last.streak + 1
    return streak, WAITS[min(streak, len(WAITS) - 1)]


def _again(job: TFJob, status: TFJobStatus, root: Failure, failures: Sequence[Failure]) -> Decision:
    counted = not root.end.infrastructure
    limit = job.spec.run_policy.backoff_limit
    if counted and limit is not None and status.retries >= limit:
        return Fail("BackoffLimitExceeded", _verdict(root))
    members = gang(job)
    together = root.view.task in members
    alone = frozenset(failure.view.task for failure in failures if not (together and failure.view.task in members))
    return Again(_verdict(root), together, alone, counted, incident=True, oom=_is_oom(root.end))


def _cause_among(retryable: Sequence[Failure], first: Failure) -> Failure | None:
    """The failure that explains `first`: it ended no later, or its pod is gone, whenever that was noticed."""
    causes = [item for item in retryable if item.second <= first.second or item.end.infrastructure]
    return causes[0] if causes else None


def _earlier_cause(status: TFJobStatus, views: Sequence[View], first: Failure) -> Verdict | None:
    """A cause that is being repaired already: restarted by us, or in place by the kubelet, while `first` ran."""
    causes: list[Verdict] = []
    if status.last_restart and status.last_restart.cause.replica != first.view.task.name:
        causes.append(status.last_restart.cause)
    for view in views:
        container = main_container(view.pod) if view.pod and view is not first.view else None
        ended = container.last_state.terminated if container else None
        if ended and ended.finished_at and ended.exit_code:
            causes.append(verdict(view.task, view.attempt, end_of(ended, ended.finished_at)))
    started = first.end.started
    for cause in causes:
        if cause.time and started and started <= cause.time and cause.time.replace(microsecond=0) <= first.second:
            return cause
    return None


def _settling_time(job: TFJob) -> timedelta:
    return SETTLE_GANG if gang(job) else SETTLE_TASKS


def _tolerated(job: TFJob, failure: Failure) -> bool:
    """A worker of an elastic job may fail without failing the job, as in v1.9."""
    task = failure.view.task
    return job.spec.enable_dynamic_worker and task.type == WORKER and policy_of(job, WORKER) != "ExitCode"


def _is_oom(end: End) -> bool:
    return end.reason == OOM_KILLED


def _soon_after_start(end: End) -> bool:
    return end.started is None or end.time - end.started <= OOM_WINDOW


def _verdict(failure: Failure) -> Verdict:
    return verdict(failure.view.task, failure.view.attempt, failure.end)
