"""The decision about one job: its spec, its observed children and the time determine its new status and the actions.

Pure: no I/O, no clock, no randomness. The loop writes the status before it acts, so the decision of a pass survives the
controller that made it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec.structs import replace

from tfjob.api.dialect import origin
from tfjob.api.objects import Pod, PodGroup
from tfjob.api.problems import Problem, errors
from tfjob.api.types import ReplicaStatus, TFJob, TFJobStatus, Verdict
from tfjob.api.validation import validate
from tfjob.controller.actions import Action, DeleteOwner, Event
from tfjob.controller.kind import SUSPEND_REASON, Observation, Plan
from tfjob.plan import events, record, summary
from tfjob.plan.build import pod_groups, tensorboard
from tfjob.plan.build.accelerators import equipped
from tfjob.plan.build.pods import template_of
from tfjob.plan.build.settings import Pass, Settings
from tfjob.plan.facts import conditions
from tfjob.plan.facts.task_state import TaskState, end_of, survey
from tfjob.plan.facts.tasks import desired, members, split_tensorboard
from tfjob.plan.policy import evaluation, in_place, run_policy, success
from tfjob.plan.policy.backoff import next_starts
from tfjob.plan.policy.cleanup import cleanup, everything, overdue
from tfjob.plan.policy.pending import starting, waits
from tfjob.plan.policy.restarts import Again, Fail, Settle, decide
from tfjob.plan.policy.verdict import fewer_lines, memory_advice, verdict
from tfjob.plan.replicas import is_resized, reconcile, stale_pods

MANAGED_BY_US = (None, "kubeflow.org/training-operator")
JobPlan = Plan[TFJobStatus]


def plan(job: TFJob, observed: Observation, now: datetime, settings: Settings | None = None) -> JobPlan:
    """Decide what one pass over a job writes and does."""
    if not _is_ours(job):
        return JobPlan(job.status)
    try:
        return _plan_all(job, observed, now, settings or Settings())
    except (AttributeError, KeyError, TypeError, ValueError):
        # A cluster may store objects that no schema has checked, and templates are not decoded into types. Imported
        # here because every command loads this module, and the reader of manifests is slow to load.
        from tfjob.api.versions.registry import reshaped

        sound, problems = reshaped(job)
        if found := errors(problems):
            return reject(job, observed, found, now, settings)
        if sound == job:
            raise
        return _plan_all(sound, observed, now, settings or Settings())


def _plan_all(job: TFJob, observed: Observation, now: datetime, settings: Settings) -> JobPlan:
    """Plan the replicas, then add the TensorBoard actions."""
    replicas, board = split_tensorboard(job, observed)
    decision = _plan(job, replicas, now, settings)
    beside = tensorboard.steps(replace(job, status=decision.status), board, settings)
    return dataclasses.replace(decision, actions=[*decision.actions, *beside]) if beside else decision


def _plan(job: TFJob, observed: Observation, now: datetime, settings: Settings) -> JobPlan:
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
    remembered = record.remember(this, status, views)
    if remembered != status:
        views = survey(job, status := remembered, observed, now)
    meets = success.rule_met_at_stop if record.is_stopping(this) else success.rule_met
    rule = meets(job, members(status.completed_indexes))
    if rule is not None:
        counted = evaluation.counts_at_success(job, summary.counted(job, status, views))
        if until := evaluation.wait_until(job, views, now):
            return _evaluating(this, counted, rule, until)
        return _succeeded(this, counted, rule + evaluation.how_it_ended(job, views, now))
    if job.spec.run_policy.suspend:
        return _suspended(this, status)
    return _continue(this, status, views)


def reject(
    job: TFJob, observed: Observation, problems: Sequence[Problem], now: datetime, settings: Settings | None = None
) -> JobPlan:
    """Fail a job that cannot run as written, and clean up its children.

    A job that v1.9 has started keeps running unmanaged, because v1.9 has other rules. So does a TfJob that was edited
    while it ran: its CRD accepts any edit, and an invalid edit must not delete pods.
    """
    if not _is_ours(job):
        return JobPlan(job.status)
    observed, _ = split_tensorboard(job, observed)
    this = Pass(job, observed, now, settings or Settings())
    if conditions.is_finished(job.status):
        return _after_the_end(this)
    text = "; ".join(f"{problem.path}: {problem.message}" for problem in problems)
    if record.is_adopted(job.status) or (origin(job).accepts_any_edit and job.status.attempt):
        # Do nothing and remove nothing until the spec is corrected; report that once.
        message = events.shortened(text, events.MESSAGE_BYTES)
        status = replace(job.status, reason=events.INVALID_SPEC, message=message)
        return JobPlan(status, events=[events.left_alone(job, text)] if status != job.status else [])
    cause = Verdict(reason=events.INVALID_SPEC, message=text, time=now)
    return _failed(this, record.created(job, now), cause)


def _is_ours(job: TFJob) -> bool:
    """Return whether we manage the job: it is not being deleted, and no other controller manages it."""
    return not job.metadata.deletion_timestamp and job.spec.run_policy.managed_by in MANAGED_BY_US


def _continue(this: Pass, status: TFJobStatus, views: list[TaskState]) -> JobPlan:
    """Plan a job that should run: limits, then restarts, then what is missing."""
    job, now, durations = this.job, this.now, this.durations
    deadline = run_policy.deadline(job, status)
    if deadline and now >= deadline:
        text = events.ACTIVE_TOO_LONG.format(seconds=job.spec.run_policy.active_deadline_seconds)
        cause = Verdict(reason=events.DEADLINE_EXCEEDED, message=text, time=now)
        return _failed(this, summary.counted(job, status, views), cause)
    if run_policy.over_backoff_limit(job, status):
        cause = _last_in_place(views) or Verdict(message=events.RESTARTED_TOO_OFTEN, time=now)
        return _failed(this, summary.counted(job, status, views), cause, events.BACKOFF_LIMIT_EXCEEDED)

    news: list[Event] = _first_news(this)
    before = status
    decision = decide(job, status, views, now, durations)
    match decision:
        case Settle():
            return _settling(this, summary.counted(job, status, views), decision)
        case Fail(reason, cause):
            repeated = cause.replica in status.oom_killed
            advised = memory_advice(job, this.observed.of(Pod), cause, repeated=repeated)
            return _failed(this, summary.counted(job, status, views), advised, reason)
        case Again():
            status = _restarting(this, record.record(job, status, decision, now, durations), decision.cause.message)
            names = sorted(task.name for task in decision.tasks)
            again = "all replicas of the gang" if decision.gang else ", ".join(names)
            news += [events.ended(decision.cause), events.restart(job, decision.cause.message, again)]
    stale = stale_pods(job, status, this.observed)
    if is_resized(job, this.observed, stale):
        status = _restarting(this, record.resized(job, status, now), events.SIZE_CHANGED)
        news.append(events.RESIZE)
        stale = stale_pods(job, status, this.observed)
    if status != before:
        views = survey(job, status, this.observed, now)
    group = pod_groups.step(job, this.observed, this.settings.gang_scheduler)
    reasons = waits(job, views, this.observed, stale, this.settings.pending_grace, group.wait)
    for wait in reasons:
        if wait.fails_at and wait.fails_at <= now:
            cause = Verdict(replica=wait.task, reason=wait.reason, message=wait.text, time=now)
            return _failed(this, summary.counted(job, status, views), cause)
    shown = reasons or starting(views, this.observed)
    status = summary.described(this, summary.counted(job, status, views), views, shown)
    status, restarts = in_place.report(job, status, views, durations)
    news += restarts
    if status.reason == events.POD_GROUP_PENDING != job.status.reason:
        # v1.9 writes this time in every pass, and so wakes itself; once is enough to show the start of the wait.
        status = replace(status, last_reconcile_time=now)
    actions, repetitions = reconcile(this, status, views, stale, group)
    later = [deadline, *repetitions, *next_starts(job, status, now, durations), *(wait.fails_at for wait in reasons)]
    return JobPlan(status, actions, news, _soonest(later, now))


def _settling(this: Pass, status: TFJobStatus, settle: Settle) -> JobPlan:
    """Wait to see whether a failure is the consequence of another one."""
    # Set no condition: it is not known yet whether the job restarts or fails.
    status = replace(
        status,
        state=conditions.RESTARTING,
        reason=events.SETTLING,
        message=events.WAITING_FOR_CAUSE.format(failure=settle.first.message),
        last_reconcile_time=settle.since,
    )
    return JobPlan(status, again_at=_soonest([settle.until, run_policy.deadline(this.job, status)], this.now))


def _restarting(this: Pass, status: TFJobStatus, why: str) -> TFJobStatus:
    text = events.about(this.job, events.IS_RESTARTING, why=why)
    listed = conditions.with_condition(status.conditions, conditions.RESTARTING, this.now, text)
    return replace(status, conditions=listed)


def _evaluating(this: Pass, status: TFJobStatus, rule: str, until: datetime) -> JobPlan:
    """Let the evaluator finish, and stop the other replicas."""
    status = evaluation.waiting(this.job, status, rule, this.now)
    news = [Event(events.EVALUATING, status.message)] if this.job.status.reason != events.EVALUATING else []
    repeated, later = overdue(this.observed.of(Pod), this.observed, this.now, this.durations)
    actions = [*evaluation.stop_others(this.observed), *repeated]
    return JobPlan(status, actions, news, _soonest([until, *later], this.now))


def _succeeded(this: Pass, status: TFJobStatus, rule: str) -> JobPlan:
    text = events.about(this.job, events.HAS_SUCCEEDED, rule=rule)
    listed = status.conditions
    if conditions.is_true(listed, conditions.SUSPENDED):
        reason = events.TFJOB_SUCCEEDED
        listed = conditions.with_condition(listed, conditions.SUSPENDED, this.now, text, status="False", reason=reason)
    status = replace(
        status,
        conditions=conditions.with_condition(listed, conditions.SUCCEEDED, this.now, text),
        state=conditions.SUCCEEDED,
        reason="",
        message=rule,
        completion_time=this.now,
        # v1.9 counts replicas that still run at the end as succeeded.
        replica_statuses={
            kind: ReplicaStatus(succeeded=count.succeeded + count.active, failed=count.failed)
            for kind, count in status.replica_statuses.items()
        },
    )
    return _ending(this, status, Event(events.TFJOB_SUCCEEDED, text))


def _failed(this: Pass, status: TFJobStatus, cause: Verdict, reason: str = "") -> JobPlan:
    message = cause.message
    if reason == events.BACKOFF_LIMIT_EXCEEDED:
        message = events.NO_RESTARTS_LEFT.format(failure=message, limit=this.job.spec.run_policy.backoff_limit)
    cause = replace(cause, message=events.shortened(message, events.MESSAGE_BYTES))
    text = events.about(this.job, events.HAS_FAILED, why=cause.message)
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
    return _ending(this, status, events.failure(text, cause))


def _ending(this: Pass, status: TFJobStatus, news: Event) -> JobPlan:
    status = replace(_cleaning(this, status), back_off={})  # nothing starts again
    actions, later = _clean_up(this)
    expiry = run_policy.expiry(this.job, status)
    return JobPlan(status, actions, [news, *_group_news(this)], min(filter(None, [expiry, *later]), default=None))


def _cleaning(this: Pass, status: TFJobStatus) -> TFJobStatus:
    """Record, for v1alpha1, whether there are still children to remove."""
    if not origin(this.job).is_v1alpha1:
        return status
    leaving = any(child.metadata.deletion_timestamp for child in this.observed.of(Pod))
    return replace(status, cleaning=leaving or bool(cleanup(this.job, this.observed)))


def _after_the_end(this: Pass) -> JobPlan:
    """Clean up a finished job, unless v1.9 finished it, and delete it when its time to live is over."""
    status = _cleaning(this, this.job.status)
    actions, later = ([], []) if record.is_adopted(status) else _clean_up(this)
    expiry = run_policy.expiry(this.job, status)
    is_suspended = this.job.spec.run_policy.suspend and not run_policy.is_stopped(this.job)
    if expiry and expiry <= this.now and not is_suspended:
        actions.append(DeleteOwner())
    return JobPlan(status, actions, again_at=_soonest([expiry, *later], this.now))


def _clean_up(this: Pass) -> tuple[list[Action], list[datetime]]:
    """Return the deletions of a finished job, and when to repeat those of pods that are still terminating."""
    repeated, later = overdue(this.observed.of(Pod), this.observed, this.now, this.durations)
    return [*cleanup(this.job, this.observed), *repeated], later


def _suspended(this: Pass, status: TFJobStatus) -> JobPlan:
    """Remove all children and keep the record of the job."""
    job, now = this.job, this.now
    text = events.about(job, events.IS_SUSPENDED)
    listed = status.conditions
    if conditions.is_true(listed, conditions.RUNNING):
        reason = events.TFJOB_SUSPENDED
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
    news = [Event(events.TFJOB_SUSPENDED, text), *_group_news(this)] if fresh else []
    repeated, later = overdue(this.observed.of(Pod), this.observed, now, this.durations)
    return JobPlan(status, [*everything(this.observed), *repeated], news, _soonest(later, now))


def _group_news(this: Pass) -> list[Event]:
    return [events.GROUP_DELETED] if this.observed.of(PodGroup) else []


def _first_news(this: Pass) -> list[Event]:
    """Return the events that are published once, when a job starts or resumes."""
    job = this.job
    if conditions.is_true(job.status.conditions, conditions.SUSPENDED):
        return [Event(events.TFJOB_RESUMED, events.about(job, events.IS_RESUMED))]
    if job.status.attempt:
        return []
    overruled = (
        events.policy_overwritten(kind)
        for kind, replica in job.spec.tf_replica_specs.items()
        if (own := ((replica.template or {}).get("spec") or {}).get("restartPolicy"))
        and replica.restart_policy not in (None, "", own)
    )
    templates = ((kind, template_of(job, kind, this.settings.tf_image)) for kind in job.spec.tf_replica_specs)
    ignored = (
        events.accelerator_overridden(kind, sentence)
        for kind, template in templates
        for sentence in equipped(template.get("spec") or {}, this.settings.accelerators)[1]
    )
    return [*overruled, *ignored, *pod_groups.scheduler_news(job, this.settings.gang_scheduler)]


def _last_in_place(views: Iterable[TaskState]) -> Verdict | None:
    """Return the latest end after which the kubelet restarted a container in place."""
    ends = [(ended.finished_at, view, ended) for view in views if (ended := view.last_end) and ended.finished_at]
    if not ends:
        return None
    time, view, ended = max(ends, key=lambda end: end[0])
    return verdict(view.task, view.attempt, end_of(ended, time))


def _soonest(times: Iterable[datetime | None], now: datetime) -> datetime | None:
    return min((time for time in times if time and time > now), default=None)
