"""Back-offs: how long a task waits before it restarts, depending on its recent restarts.

Tasks back off separately, so that one that fails repeatedly does not delay others; a gang backs off as one. A task that
may have failed because of another waits at least as long as that one: started alone, it would fail again.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tfjob.api.types import GANG_BACK_OFF, BackOff, TFJob, TFJobStatus
from tfjob.durations import USUAL, Durations
from tfjob.plan.facts.tasks import Task, desired, gang

if TYPE_CHECKING:
    from tfjob.plan.policy.restarts import Again


def held_back(job: TFJob, status: TFJobStatus, now: datetime, durations: Durations = USUAL) -> frozenset[Task]:
    waiting = _to_come(job, status, now, durations)
    alone = frozenset(task for task in desired(job) if task.name in waiting) if waiting else frozenset[Task]()
    return alone | gang(job) if GANG_BACK_OFF in waiting else alone


def next_starts(job: TFJob, status: TFJobStatus, now: datetime, durations: Durations = USUAL) -> list[datetime]:
    """Return the times at which waiting tasks may start, earliest first."""
    return sorted(one.not_before for one in _to_come(job, status, now, durations).values())


def absences(job: TFJob, status: TFJobStatus, durations: Durations) -> Iterator[tuple[Task, datetime, datetime]]:
    """Yield each task outside a gang that waited after restarts, not for a peer, with the start and end of the wait."""
    for task in desired(job) if status.back_off else ():
        one = status.back_off.get(task.name)
        if one and one.restarts and (wait := wait_after(one.restarts, durations)):
            yield task, one.not_before - wait, one.not_before


def wait_after(restarts: int, durations: Durations) -> timedelta:
    waits = durations.restart_waits
    return waits[min(restarts, len(waits)) - 1]


def names(job: TFJob, tasks: Set[Task]) -> frozenset[str]:
    """Return the keys of these tasks in the status field `backOff`."""
    together = gang(job)
    alone = frozenset(task.name for task in tasks - together)
    return alone if together.isdisjoint(tasks) else alone | {GANG_BACK_OFF}


def name_of(job: TFJob, replica: str) -> str:
    return GANG_BACK_OFF if any(task.name == replica for task in gang(job)) else replica


def after(job: TFJob, status: TFJobStatus, again: Again, now: datetime, durations: Durations) -> dict[str, BackOff]:
    """Return the back-offs after a restart; the consequence of a recorded incident does not count as a restart."""
    restarted = names(job, again.tasks | gang(job) if again.gang else again.tasks)
    cause = name_of(job, again.cause.replica)
    latest = now + durations.restart_waits[-1]
    waits = {
        name: replace(one, not_before=min(one.not_before, latest))
        for name, one in _known(job, status).items()
        if now - one.not_before < durations.streak_reset
    }
    for name in restarted if again.incident else ():
        restarts = 1 + (waits[name].restarts if name in waits else 0)
        waits[name] = BackOff(restarts=restarts, not_before=now + wait_after(restarts, durations))
    if cause in waits and (first := waits[cause].not_before) > now:
        for name in restarted & names(job, again.followers):
            own = waits.get(name, BackOff(not_before=first))
            waits[name] = replace(own, not_before=max(own.not_before, first))
    return dict(sorted(waits.items()))


def _known(job: TFJob, status: TFJobStatus) -> dict[str, BackOff]:
    wanted = {GANG_BACK_OFF, *(task.name for task in desired(job))} if status.back_off else set[str]()
    return {name: one for name, one in status.back_off.items() if name in wanted}


def _to_come(job: TFJob, status: TFJobStatus, now: datetime, durations: Durations) -> dict[str, BackOff]:
    """Return the back-offs that are not over; ignore those beyond the longest wait: the clock was set back."""
    latest = now + durations.restart_waits[-1]
    return {name: one for name, one in _known(job, status).items() if now < one.not_before <= latest}
