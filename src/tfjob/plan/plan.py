"""The decision: one job, what its cluster shows of it, and the time; out come its new status and what to do.

Pure: no I/O, no clock, no randomness. The status is written before any action is carried out, so whatever a pass
decides survives the controller that decided it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from msgspec.structs import replace

from tfjob.api.dialect import origin
from tfjob.api.problems import Problem, errors
from tfjob.api.types import ReplicaStatus, TFJob, TFJobStatus, Verdict
from tfjob.api.validation import validate
from tfjob.controller.actions import Action, DeleteOwner, Event
from tfjob.controller.kind import Plan
from tfjob.plan import record, summary
from tfjob.plan.build import accelerators, pod_groups, tensorboard
from tfjob.plan.build.pods import Settings, template_of
from tfjob.plan.facts import conditions
from tfjob.plan.facts.task_state import TaskState, end_of, survey
from tfjob.plan.facts.tasks import Observed, desired, main_container, members, split_tensorboard
from tfjob.plan.policy import in_place, limits, success
from tfjob.plan.policy.backoff import next_starts
from tfjob.plan.policy.cleanup import cleanup, everything, overdue
from tfjob.plan.policy.pending import POD_GROUP_PENDING, starting, waits
from tfjob.plan.policy.restarts import SETTLING, Again, Fail, Settle, decide
from tfjob.plan.policy.suspension import SUSPEND_REASON
from tfjob.plan.policy.verdict import fewer_lines, limit_verdict, memory_advice, shortened, verdict
from tfjob.plan.replicas import is_resized, reconcile, stale_pods

EVENT_BYTES, MESSAGE_BYTES = 1000, 800
MANAGED_BY_US = (None, "kubeflow.org/training-operator")
JobPlan = Plan[TFJobStatus]


@dataclass(frozen=True)
class Pass:
    """What stays the same within one pass."""

    job: TFJob
    observed: Observed
    now: datetime
    settings: Settings = field(default_factory=Settings)


def plan(job: TFJob, observed: Observed, now: datetime, settings: Settings | None = None) -> JobPlan:
    """Decides what one pass over a job writes and does."""
    if not _is_ours(job):
        return JobPlan(job.status)
    try:
        return _plan_all(job, observed, now, settings or Settings())
    except (AttributeError, KeyError, TypeError, ValueError):
        # A cluster may hold what no schema has seen, and templates are not decoded into types. Imported here, because
        # every command comes by this module and the reader of manifests takes long to load.
        from tfjob.api.versions.registry import reshaped

        sound, problems = reshaped(job)
        if found := errors(problems):
            return reject(job, observed, found, now, settings)
        if sound == job:
            raise
        return _plan_all(sound, observed, now, settings or Settings())


def _plan_all(job: TFJob, observed: Observed, now: datetime, settings: Settings) -> JobPlan:
    """The same for a job of the right shape."""
    replicas, board = split_tensorboard(job, observed)
    decision = _plan(job, replicas, now, settings)
    beside = tensorboard.steps(replace(job, status=decision.status), board, settings)
    return dataclasses.replace(decision, actions=[*decision.actions, *beside]) if beside else decision


def _plan(job: TFJob, observed: Observed, now: datetime, settings: Settings) -> JobPlan:
    """The same for its replicas."""
    if conditions.is_finished(job.status):
        return _after_the_end(Pass(job, observed, now, settings))
    job = record.adopted(job)
    this = Pass(job, observed, now, settings)
    if job.status.attempt == 0 and (problems := errors(validate(job))):
        return reject(job, observed, problems, now, settings)
    if job.spec.run_policy.suspend and job.status.attempt == 0:
        return _suspended(this, record.created(job, now))

    status = record.created(job, now) if job.spec.run_policy.suspend else record.begin(job, now)
    views = survey(job, status, observed, now)
    remembered = record.remember(job, status, views, now, settings.durations)
    if remembered != status:
        views = survey(job, status := remembered, observed, now)
    rule = success.rule_met(job, members(status.completed_indexes))
    if rule is not None:
        return _succeeded(this, summary.counted(job, status, views), rule)
    if job.spec.run_policy.suspend:
        return _suspended(this, status)
    return _continue(this, status, views)


def reject(
    job: TFJob, observed: Observed, problems: Sequence[Problem], now: datetime, settings: Settings | None = None
) -> JobPlan:
    """The end of a job that cannot be run as it is written: it has failed, and what it had before is cleaned up.

    What v1.9 has begun goes on without us: its rules were others. So does a TfJob that was edited while it ran: its CRD
    takes any edit, and none that cannot be understood may cost what is there.
    """
    if not _is_ours(job):
        return JobPlan(job.status)
    observed, _ = split_tensorboard(job, observed)
    this = Pass(job, observed, now, settings or Settings())
    if conditions.is_finished(job.status):
        return _after_the_end(this)
    text = "; ".join(f"{problem.path}: {problem.message}" for problem in problems)
    if record.is_adopted(job.status) or (origin(job).accepts_any_edit and job.status.attempt):
        return _unheeded(job, text)
    return _failed(this, record.created(job, now), limit_verdict("InvalidSpec", text, now))


def _unheeded(job: TFJob, text: str) -> JobPlan:
    """Nothing is done and nothing removed until the spec is corrected; that is said once."""
    status = replace(job.status, reason="InvalidSpec", message=shortened(text, MESSAGE_BYTES))
    said = f"TFJob {job.metadata.name} is left as it is until its spec is corrected: {text}"
    news = [Event("InvalidSpec", shortened(said, EVENT_BYTES), warning=True)] if status != job.status else []
    return JobPlan(status, events=news)


def _is_ours(job: TFJob) -> bool:
    """Whether there is anything to decide: nothing of what is being deleted, or what somebody else manages."""
    return not job.metadata.deletion_timestamp and job.spec.run_policy.managed_by in MANAGED_BY_US


def _continue(this: Pass, status: TFJobStatus, views: list[TaskState]) -> JobPlan:
    """A job that should run: limits, then restarts, then what is missing."""
    job, now, durations = this.job, this.now, this.settings.durations
    deadline = limits.deadline(job, status)
    if deadline and now >= deadline:
        seconds = job.spec.run_policy.active_deadline_seconds
        text = f"it was active longer than activeDeadlineSeconds ({seconds} s)"
        return _failed(this, summary.counted(job, status, views), limit_verdict("DeadlineExceeded", text, now))
    if limits.over_backoff_limit(job, status):
        cause = _last_in_place(views) or Verdict(message="a replica was restarted too often", time=now)
        return _failed(this, summary.counted(job, status, views), cause, limits.BACKOFF_LIMIT_EXCEEDED)

    news: list[Event] = _first_news(this)
    before = status
    decision = decide(job, status, views, now, durations)
    match decision:
        case Settle():
            return _settling(this, summary.counted(job, status, views), decision)
        case Fail(reason, cause):
            repeated = cause.replica in status.oom_killed
            advised = memory_advice(job, this.observed.pods, cause, repeated=repeated)
            return _failed(this, summary.counted(job, status, views), advised, reason)
        case Again():
            status = _restarting(this, record.record(job, status, decision, now, durations), decision.cause.message)
            news += [_ended(decision.cause), _restart_news(this, decision)]
    stale = stale_pods(job, status, this.observed)
    if is_resized(job, this.observed, stale):
        status = _restarting(this, record.resized(job, status, now), "the number of replicas changed")
        news.append(Event("Resized", "the number of replicas changed: the gang starts again with a new TF_CONFIG"))
        stale = stale_pods(job, status, this.observed)
    if status != before:
        views = survey(job, status, this.observed, now)
    group = pod_groups.step(job, this.observed, this.settings.gang_scheduler)
    reasons = waits(job, views, this.observed, stale, this.settings.pending_grace, group.wait)
    for wait in reasons:
        if wait.fails_at and wait.fails_at <= now:
            cause = Verdict(replica=wait.task, reason=wait.reason, message=wait.text, time=now)
            return _failed(this, summary.counted(job, status, views), cause)
    told = reasons or starting(views, this.observed)
    status = summary.described(job, summary.counted(job, status, views), views, told, now, durations)
    status, restarts = in_place.telling(job, status, views)
    news += restarts
    if status.reason == POD_GROUP_PENDING != job.status.reason:
        # v1.9 writes it in every pass, and so wakes itself; once is enough to show since when.
        status = replace(status, last_reconcile_time=now)
    actions, again = reconcile(job, status, views, this.observed, stale, now, this.settings, group)
    later = [deadline, *again, *next_starts(job, status, now, durations), *(wait.fails_at for wait in reasons)]
    return JobPlan(status, actions, news, _soonest(later, now))


def _settling(this: Pass, status: TFJobStatus, settle: Settle) -> JobPlan:
    """A failure that may be the consequence of another one: nothing is touched until that is known."""
    # No condition yet: whether it is a restart or the end is what has to be found out.
    status = replace(
        status,
        state=conditions.RESTARTING,
        reason=SETTLING,
        message=f"{settle.first.message}; waiting to see whether another replica failed first",
        last_reconcile_time=settle.since,
    )
    return JobPlan(status, again_at=_soonest([settle.until, limits.deadline(this.job, status)], this.now))


def _restarting(this: Pass, status: TFJobStatus, why: str) -> TFJobStatus:
    text = f"TFJob {this.job.metadata.name} is restarting because {why}."
    return replace(
        status, conditions=conditions.with_condition(status.conditions, conditions.RESTARTING, this.now, text)
    )


def _succeeded(this: Pass, status: TFJobStatus, rule: str) -> JobPlan:
    text = f"TFJob {_name(this.job)} successfully completed: {rule}."
    status = replace(
        status,
        conditions=conditions.with_condition(status.conditions, conditions.SUCCEEDED, this.now, text),
        state=conditions.SUCCEEDED,
        reason="",
        message=rule,
        completion_time=this.now,
        # v1.9 counts what still ran at the end as succeeded.
        replica_statuses={
            kind: ReplicaStatus(succeeded=count.succeeded + count.active, failed=count.failed)
            for kind, count in status.replica_statuses.items()
        },
    )
    return _ending(this, status, Event("TFJobSucceeded", text))


def _failed(this: Pass, status: TFJobStatus, cause: Verdict, reason: str = "") -> JobPlan:
    if reason == limits.BACKOFF_LIMIT_EXCEEDED:
        cause = replace(cause, message=f"{cause.message}; {limits.backoff_words(this.job)}")
    cause = replace(cause, message=shortened(cause.message, MESSAGE_BYTES))
    text = f"TFJob {_name(this.job)} has failed because {cause.message}."
    last_restart = status.last_restart
    if last_restart:
        last_restart = replace(last_restart, cause=fewer_lines(last_restart.cause))
    status = replace(
        status,
        conditions=conditions.with_condition(status.conditions, conditions.FAILED, this.now, text),
        state=conditions.FAILED,
        reason=reason or cause.reason,
        message=cause.message,
        completion_time=this.now,
        last_restart=last_restart,
        failure=cause,
    )
    last = f" Last line: {cause.last_lines[-1]}" if cause.last_lines else ""
    return _ending(this, status, Event("TFJobFailed", shortened(text + last, EVENT_BYTES), warning=True))


def _ending(this: Pass, status: TFJobStatus, news: Event) -> JobPlan:
    told = [news, *_group_news(this)]
    status = replace(_cleaning(this, status), back_offs=[])  # nothing starts again
    repeated, later = _overdue(this)
    actions = [*cleanup(this.job, this.observed), *repeated]
    expiry = limits.expiry(this.job, status)
    return JobPlan(status, actions, told, min([*later, *([expiry] if expiry else ())], default=None))


def _cleaning(this: Pass, status: TFJobStatus) -> TFJobStatus:
    """Tells, for v1alpha1, whether something that should go is still there."""
    if not origin(this.job).is_v1alpha1:
        return status
    leaving = any(child.metadata.deletion_timestamp for child in this.observed.pods)
    return replace(status, cleaning=leaving or bool(cleanup(this.job, this.observed)))


def _after_the_end(this: Pass) -> JobPlan:
    """A finished job: clean up what still stands, and remove the job when its time to live is over.

    What v1.9 finished was cleaned up by its own rules.
    """
    status = _cleaning(this, this.job.status)
    if record.is_adopted(status):
        actions, later = list[Action](), list[datetime]()
    else:
        repeated, later = _overdue(this)
        actions = [*cleanup(this.job, this.observed), *repeated]
    expiry = limits.expiry(this.job, status)
    if expiry and expiry <= this.now and not this.job.spec.run_policy.suspend:
        actions.append(DeleteOwner())
    return JobPlan(status, actions, again_at=_soonest([expiry, *later], this.now))


def _overdue(this: Pass) -> tuple[list[Action], list[datetime]]:
    """Deletions to repeat in a job that is over or suspended: any pod that is being deleted may go."""
    return overdue(this.observed.pods, this.observed, this.now, this.settings.durations)


def _suspended(this: Pass, status: TFJobStatus) -> JobPlan:
    """No pods: all children go, the record of what happened stays."""
    job, now = this.job, this.now
    text = f"TFJob {job.metadata.name} is suspended."
    listed = status.conditions
    if conditions.is_true(listed, conditions.RUNNING):
        reason = conditions.REASONS[conditions.SUSPENDED]
        listed = conditions.with_condition(listed, conditions.RUNNING, now, text, status="False", reason=reason)
    listed = [condition for condition in listed if condition.type != conditions.RESTARTING]
    fresh = not conditions.is_true(listed, conditions.SUSPENDED)
    status = replace(
        status,
        conditions=conditions.with_condition(listed, conditions.SUSPENDED, now, text),
        state=conditions.SUSPENDED,
        reason=job.metadata.annotations.get(SUSPEND_REASON, conditions.SUSPENDED),
        message="",
        ready=f"0/{len(desired(job))}",
        replica_statuses={kind: replace(count, active=0, failed=0) for kind, count in status.replica_statuses.items()},
    )
    news = [Event("TFJobSuspended", text), *_group_news(this)] if fresh else []
    repeated, later = _overdue(this)
    return JobPlan(status, [*everything(this.observed), *repeated], news, _soonest(later, now))


def _group_news(this: Pass) -> list[Event]:
    return [Event("JobTerminated", "Job has been terminated. Deleting PodGroup")] if this.observed.pod_groups else []


def _first_news(this: Pass) -> list[Event]:
    """What is said once, when a job starts or goes on."""
    job = this.job
    if conditions.is_true(job.status.conditions, conditions.SUSPENDED):
        return [Event("TFJobResumed", f"TFJob {job.metadata.name} is resumed.")]
    if job.status.attempt:
        return []
    overwritten = "Restart policy in pod template will be overwritten by restart policy in replica spec"
    overruled = (
        Event("SetPodTemplateRestartPolicy", f"{kind}: {overwritten}", warning=True)
        for kind, replica in job.spec.tf_replica_specs.items()
        if (own := ((replica.template or {}).get("spec") or {}).get("restartPolicy"))
        and replica.restart_policy not in (None, "", own)
    )
    equipped = (
        news
        for kind in job.spec.tf_replica_specs
        for news in accelerators.news(kind, template_of(job, kind, this.settings.tf_image), this.settings.accelerators)
    )
    return [*overruled, *equipped, *pod_groups.scheduler_news(job, this.settings.gang_scheduler)]


def _restart_news(this: Pass, again: Again) -> Event:
    who = "all replicas of the gang" if again.gang else ", ".join(sorted(task.name for task in again.tasks))
    text = f"TFJob {this.job.metadata.name} is restarting because {again.cause.message}; starting again: {who}."
    return Event("TFJobRestarting", shortened(text, EVENT_BYTES), warning=True)


def _ended(cause: Verdict) -> Event:
    return Event("ExitedWithCode" if cause.exit_code is not None else cause.reason, cause.message)


def _last_in_place(views: Iterable[TaskState]) -> Verdict | None:
    """The latest end that the kubelet answered with a restart in place."""
    found = []
    for view in views:
        status = main_container(view.pod) if view.pod else None
        ended = status.last_state.terminated if status else None
        if ended and ended.finished_at:
            found.append((ended.finished_at, verdict(view.task, view.attempt, end_of(ended, ended.finished_at))))
    return max(found, key=lambda pair: pair[0])[1] if found else None


def _name(job: TFJob) -> str:
    return f"{job.metadata.namespace}/{job.metadata.name}"


def _soonest(times: Iterable[datetime | None], now: datetime) -> datetime | None:
    return min((time for time in times if time and time > now), default=None)
