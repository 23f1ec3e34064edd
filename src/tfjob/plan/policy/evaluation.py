"""The wait for the evaluator: when the training has succeeded, it may still be testing the last checkpoint.

The other replicas are stopped at once. `cleanPodPolicy: All` ends the evaluator too, and `None` lets it run.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from tfjob.api.objects import Pod, Service
from tfjob.api.types import EVALUATOR, EVALUATOR_GRACE, TFJob, TFJobStatus
from tfjob.controller.actions import Action
from tfjob.controller.kind import Observation
from tfjob.plan import events
from tfjob.plan.facts import conditions
from tfjob.plan.facts.task_state import TaskState, is_over
from tfjob.plan.facts.tasks import task_of
from tfjob.plan.policy.cleanup import ALL, NONE, removals
from tfjob.plan.policy.verdict import sentence

GRACE_SECONDS = 120


def wait_until(job: TFJob, views: Sequence[TaskState], now: datetime) -> datetime | None:
    """Return until when a job whose training has succeeded waits for its evaluator; None if it does not wait."""
    if not any(view.task.type == EVALUATOR and view.up and not view.end for view in views):
        return None
    until = _since(job.status, now) + grace(job)
    return until if until > now else None


def grace(job: TFJob) -> timedelta:
    policy = job.spec.run_policy
    if policy.suspend or policy.clean_pod_policy in (ALL, NONE):
        return timedelta(0)
    if policy.evaluator_grace_seconds is not None:
        return timedelta(seconds=policy.evaluator_grace_seconds)
    annotated = job.metadata.annotations.get(EVALUATOR_GRACE, "")
    return timedelta(seconds=int(annotated) if annotated.isdecimal() else GRACE_SECONDS)


def waiting(job: TFJob, status: TFJobStatus, rule: str, now: datetime) -> TFJobStatus:
    """Return the status of a job that waits for its evaluator."""
    return replace(
        status,
        state=conditions.RUNNING,
        reason=events.EVALUATING,
        message=events.WAITING_FOR_EVALUATOR.format(rule=rule, seconds=grace(job).total_seconds()),
        last_reconcile_time=_since(job.status, now),
    )


def stop_others(observed: Observation) -> list[Action]:
    """Return the deletions of replicas other than evaluators; those that have ended stay."""
    pods = observed.of(Pod)
    kept = {pod.metadata.name for pod in pods if is_over(pod) or _evaluates(pod)}
    children: list[Pod | Service] = [*pods, *observed.of(Service)]
    return removals([child for child in children if child.metadata.name not in kept])


def counts_at_success(job: TFJob, status: TFJobStatus) -> TFJobStatus:
    """Keep the counts of the replicas that were stopped for the wait: v1.9 counts them as succeeded."""
    if job.status.reason != events.EVALUATING:
        return status
    now = {kind: count for kind, count in status.replica_statuses.items() if kind == EVALUATOR}
    return replace(status, ready=job.status.ready, replica_statuses={**job.status.replica_statuses, **now})


def how_it_ended(job: TFJob, views: Sequence[TaskState], now: datetime) -> str:
    """Return what ended the wait, to be added to the success rule; empty if the job did not wait."""
    if job.status.reason != events.EVALUATING:
        return ""
    views = [view for view in views if view.task.type == EVALUATOR]
    unfinished = [view for view in views if not (view.completed or (view.end and view.end.succeeded))]
    name = (unfinished or views)[0].task.name
    if not unfinished:
        return f"; {events.EVALUATOR_DONE.format(evaluator=name)}"
    if end := unfinished[0].end:
        return f"; {sentence(unfinished[0].task, end)}"
    seconds = (now - _since(job.status, now)).total_seconds()
    return f"; {events.EVALUATOR_STOPPED.format(evaluator=name, seconds=seconds)}"


def _since(status: TFJobStatus, now: datetime) -> datetime:
    return (status.last_reconcile_time if status.reason == events.EVALUATING else None) or now


def _evaluates(pod: Pod) -> bool:
    task = task_of(pod)
    return task is not None and task.type == EVALUATOR
