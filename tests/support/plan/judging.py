"""What a pass decides about pods that have ended, for the tests of restarts."""

from __future__ import annotations

from msgspec.structs import replace

from support.plan.builders import PodBuilder, at, observed
from tfjob.api.types import TFJob
from tfjob.plan.facts.task_state import survey
from tfjob.plan.policy.restarts import Again, Decision, decide


def judge(
    owner: TFJob, *pods: PodBuilder, second: float = 60, seen: float | None = None, lost_nodes: tuple[str, ...] = ()
) -> Decision | None:
    """What a pass decides; `seen` is when an earlier one has held a failure."""
    if seen is not None:
        held = {"state": "Restarting", "reason": "Settling", "last_reconcile_time": at(seen)}
        owner = replace(owner, status=replace(owner.status, **held))
    views = survey(owner, owner.status, observed(owner, pods, lost_nodes=lost_nodes), at(second))
    return decide(owner, owner.status, views, at(second))


def again(decision: Decision | None) -> Again:
    assert isinstance(decision, Again), decision
    return decision


def rerun(decision: Decision | None) -> tuple[str, bool, set[str]]:
    """Who is blamed, whether the gang runs again, and who runs again beside it."""
    decision = again(decision)
    return decision.cause.replica, decision.gang, {one.name for one in decision.tasks}
