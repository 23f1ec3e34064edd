"""Plans with one fault each: the real plan, but for what their names say."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from support.plan.model_cluster import Decide
from tfjob.api.objects import Pod
from tfjob.api.types import TFJob, TFJobStatus
from tfjob.controller.actions import Action, Create, Delete, DeleteOwner
from tfjob.controller.kind import Observation
from tfjob.plan.facts.conditions import is_finished
from tfjob.plan.facts.tasks import ATTEMPT
from tfjob.plan.plan import JobPlan, plan


def names_pods_after_their_attempt(owner: TFJob, seen: Observation, now: datetime) -> JobPlan:
    staying = [pod for pod in seen.of(Pod) if pod.metadata.deletion_timestamp is None]
    outcome = plan(owner, dataclasses.replace(seen, children={**seen.children, Pod: staying}), now)
    return _with(outcome, outcome.status, [_renamed(action) for action in outcome.actions])


def forgets_completion(owner: TFJob, seen: Observation, now: datetime) -> JobPlan:
    outcome = plan(replace(owner, status=replace(owner.status, completed_indexes={})), seen, now)
    finished = is_finished(outcome.status)
    return outcome if finished else _with(outcome, replace(outcome.status, completed_indexes={}))


def forgets_restarts_that_are_over(owner: TFJob, seen: Observation, now: datetime) -> JobPlan:
    outcome = plan(owner, seen, now)
    over = outcome.status.state == "Running"
    return _with(outcome, replace(outcome.status, restarts=0) if over else outcome.status)


def forgets_the_restarts_of_single_tasks(owner: TFJob, seen: Observation, now: datetime) -> JobPlan:
    outcome = plan(owner, seen, now)
    over = outcome.status.state == "Running"
    return _with(outcome, replace(outcome.status, task_restarts={}) if over else outcome.status)


def changes_its_mind_after_the_end(owner: TFJob, seen: Observation, now: datetime) -> JobPlan:
    if is_finished(owner.status) and seen.of(Pod):
        return _with(plan(owner, seen, now), replace(owner.status, message="or was it?"))
    return plan(owner, seen, now)


def goes_on_after_the_end(owner: TFJob, seen: Observation, now: datetime) -> JobPlan:
    running = [one for one in owner.status.conditions if one.type not in ("Succeeded", "Failed")]
    outcome = plan(replace(owner, status=replace(owner.status, conditions=running)), seen, now)
    return _with(outcome, owner.status) if is_finished(owner.status) else outcome


def removes_a_job_that_runs(owner: TFJob, seen: Observation, now: datetime) -> JobPlan:
    outcome = plan(owner, seen, now)
    runs = outcome.status.state == "Running" and not owner.metadata.deletion_timestamp
    return _with(outcome, outcome.status, [*outcome.actions, DeleteOwner()] if runs else outcome.actions)


def succeeds_and_fails(owner: TFJob, seen: Observation, now: datetime) -> JobPlan:
    outcome = plan(owner, seen, now)
    if outcome.status.state != "Failed" or is_finished(owner.status):
        return outcome
    both = [*outcome.status.conditions, replace(outcome.status.conditions[-1], type="Succeeded")]
    return _with(outcome, replace(outcome.status, conditions=both))


def counts_its_passes(owner: TFJob, seen: Observation, now: datetime) -> JobPlan:
    outcome = plan(owner, seen, now)
    return _with(outcome, replace(outcome.status, observed_generation=owner.status.observed_generation + 1))


def asks_again_and_again(owner: TFJob, seen: Observation, now: datetime) -> JobPlan:
    outcome = plan(owner, seen, now)
    leaving = [pod.metadata for pod in seen.of(Pod) if pod.metadata.deletion_timestamp]
    again = [Delete("Pod", metadata.name, metadata.uid) for metadata in leaving]
    return _with(outcome, outcome.status, [*outcome.actions, *again])


def tells_the_time(owner: TFJob, seen: Observation, now: datetime) -> JobPlan:
    outcome = plan(owner, seen, now)
    return _with(outcome, replace(outcome.status, last_reconcile_time=now.replace(minute=0, second=0, microsecond=0)))


def wakes_up_too_late(owner: TFJob, seen: Observation, now: datetime) -> JobPlan:
    outcome = plan(owner, seen, now)
    later = outcome.again_at and outcome.again_at + timedelta(seconds=5)
    return JobPlan(outcome.status, outcome.actions, outcome.events, later)


def keeps_its_reasons_to_itself(owner: TFJob, seen: Observation, now: datetime) -> JobPlan:
    outcome = plan(owner, seen, now)
    waits = outcome.status.state in ("Pending", "Restarting")
    return _with(outcome, replace(outcome.status, reason="", message="") if waits else outcome.status)


def blames_something_else(owner: TFJob, seen: Observation, now: datetime) -> JobPlan:
    return plan(owner, dataclasses.replace(seen, rejections={}), now)


def writes_to_what_is_being_deleted(owner: TFJob, seen: Observation, now: datetime) -> JobPlan:
    outcome = plan(owner, seen, now)
    leaves = owner.metadata.deletion_timestamp and not is_finished(owner.status)
    return _with(outcome, replace(outcome.status, message="farewell") if leaves else outcome.status)


def works_for_what_is_being_deleted(owner: TFJob, seen: Observation, now: datetime) -> JobPlan:
    staying = replace(owner, metadata=replace(owner.metadata, deletion_timestamp=None))
    outcome = plan(staying, seen, now)
    return _with(outcome, owner.status) if owner.metadata.deletion_timestamp else outcome


def ignores_the_backoff_limit(owner: TFJob, seen: Observation, now: datetime) -> JobPlan:
    run_policy = replace(owner.spec.run_policy, backoff_limit=None)
    return plan(replace(owner, spec=replace(owner.spec, run_policy=run_policy)), seen, now)


def deletes_before_it_records(owner: TFJob, seen: Observation, now: datetime) -> JobPlan:
    outcome = plan(owner, seen, now)
    return _with(outcome, owner.status) if outcome.status.restarts > owner.status.restarts else outcome


def forgets_to_wake_up(owner: TFJob, seen: Observation, now: datetime) -> JobPlan:
    outcome = plan(owner, seen, now)
    return JobPlan(outcome.status, outcome.actions, outcome.events, None)


def never_deletes_again(owner: TFJob, seen: Observation, now: datetime) -> JobPlan:
    outcome = plan(owner, seen, now)
    first = [one for one in outcome.actions if not isinstance(one, Delete) or one.overdue is None]
    return _with(outcome, outcome.status, first)


def deletes_again_at_every_look(owner: TFJob, seen: Observation, now: datetime) -> JobPlan:
    return plan(owner, dataclasses.replace(seen, repeated_deletions={}), now)


FAULTY_PLANS: dict[Decide, str] = {
    names_pods_after_their_attempt: "no overlap",
    forgets_completion: "done stays done",
    forgets_restarts_that_are_over: "monotone",
    forgets_the_restarts_of_single_tasks: "monotone",
    changes_its_mind_after_the_end: "final",
    goes_on_after_the_end: "final",
    removes_a_job_that_runs: "final",
    succeeds_and_fails: "one end",
    counts_its_passes: "repeatable",
    asks_again_and_again: "rests",
    tells_the_time: "in time",
    wakes_up_too_late: "in time",
    keeps_its_reasons_to_itself: "reason",
    blames_something_else: "reason",
    writes_to_what_is_being_deleted: "hands off",
    works_for_what_is_being_deleted: "hands off",
    ignores_the_backoff_limit: "limit",
    deletes_before_it_records: "record first",
    forgets_to_wake_up: "ends",
    never_deletes_again: "ends",
    deletes_again_at_every_look: "patient",
}
"""Each with the invariant that finds it."""


def _with(outcome: JobPlan, status: TFJobStatus, actions: Sequence[Action] | None = None) -> JobPlan:
    return JobPlan(status, outcome.actions if actions is None else actions, outcome.events, outcome.again_at)


def _renamed(action: Action) -> Action:
    if not isinstance(action, Create) or not isinstance(action.child, Pod):
        return action
    metadata = action.child.metadata
    name = f"{metadata.name}-{metadata.annotations[ATTEMPT]}"
    return Create(replace(action.child, metadata=replace(metadata, name=name)))
