"""Back-offs: how long a task that runs again waits, by how often it did so lately.

Each task waits for its own restarts, so that one that fails repeatedly delays no other; a gang waits as one. A task
that may have failed because of another waits for that one too: started alone, it would fail again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from tfjob.api.types import BackOff, TFJob, TFJobStatus
from tfjob.durations import USUAL, Durations
from tfjob.plan.facts.tasks import GANG, Task, desired, gang, members, ranges

MOST_BYTES, LONG = 1024, 64
"""How much room a status has for them, and how long a list of indexes may be that counts as short."""


def back_offs(job: TFJob, status: TFJobStatus) -> Sequence[BackOff]:
    """Return the back-offs of tasks that the job has; an older status has one for all, with its last restart."""
    last, wanted = status.last_restart, frozenset(desired(job))
    if status.back_offs or last is None or last.not_before is None:
        known = [(members(one.tasks) & wanted, one) for one in status.back_offs]
        return [replace(one, tasks=ranges(tasks)) for tasks, one in known if tasks]
    together = gang(job) if last.scope == GANG else frozenset[Task]()
    alone = {task for task in wanted if task.name in status.task_restarts}
    return [BackOff(tasks=ranges(together | alone), restarts=last.streak + 1, not_before=last.not_before)]


def held_back(job: TFJob, status: TFJobStatus, now: datetime, durations: Durations = USUAL) -> frozenset[Task]:
    held = frozenset[Task]().union(*(members(one.tasks) for one in _to_come(job, status, now, durations)))
    # A member that was added since does not start before the others.
    together = gang(job) if held else frozenset[Task]()
    return held if held.isdisjoint(together) else held | together


def next_starts(job: TFJob, status: TFJobStatus, now: datetime, durations: Durations = USUAL) -> list[datetime]:
    """Return when the tasks that are held back may start, the soonest first."""
    return sorted(one.not_before for one in _to_come(job, status, now, durations) if one.not_before)


def absences(job: TFJob, status: TFJobStatus, durations: Durations) -> Iterator[tuple[Task, datetime, datetime]]:
    """Yield each task that waited because of its own restarts, and from when to when."""
    for one in back_offs(job, status):
        if one.restarts and one.not_before and (wait := wait_after(one.restarts, durations)):
            for task in sorted(members(one.tasks)):
                yield task, one.not_before - wait, one.not_before


def wait_after(restarts: int, durations: Durations) -> timedelta:
    """Return how long the last of so many restarts in a row waits."""
    waits = durations.restart_waits
    return waits[min(restarts, len(waits)) - 1]


def after(
    job: TFJob,
    status: TFJobStatus,
    units: Sequence[frozenset[Task]],
    now: datetime,
    *,
    cause: str,
    followers: Set[Task],
    incident: bool,
    durations: Durations = USUAL,
) -> list[BackOff]:
    """Return the back-offs after `units`, each a task or a gang, restart because of the task called `cause`.

    Consequences of an incident that is recorded already do not count as restarts.
    """
    latest = now + durations.restart_waits[-1]
    lately = [
        replace(one, not_before=min(one.not_before, latest))
        for one in back_offs(job, status)
        if one.not_before and now - one.not_before < durations.streak_reset
    ]
    own = {task: one for one in lately for task in members(one.tasks)}
    waits = dict(own)
    for unit in units if incident else ():
        restarts = 1 + max((own[task].restarts for task in unit if task in own), default=0)
        waits |= dict.fromkeys(unit, BackOff(restarts=restarts, not_before=now + wait_after(restarts, durations)))
    first = next((one.not_before for task, one in waits.items() if task.name == cause), None)
    for unit in units:
        if first and first > now and not unit.isdisjoint(followers):
            waits |= {task: _no_sooner(waits.get(task, BackOff()), first) for task in unit}
    return _entries(waits)


def of(known: Sequence[BackOff], name: str) -> BackOff | None:
    return next((one for one in reversed(known) if any(task.name == name for task in members(one.tasks))), None)


def _to_come(job: TFJob, status: TFJobStatus, now: datetime, durations: Durations) -> list[BackOff]:
    """Return the starts in the future; one further away than any wait comes from a clock that was set back."""
    latest = now + durations.restart_waits[-1]
    return [one for one in back_offs(job, status) if one.not_before and now < one.not_before <= latest]


def _no_sooner(one: BackOff, time: datetime) -> BackOff:
    return replace(one, not_before=max(one.not_before or time, time))


def _entries(waits: Mapping[Task, BackOff]) -> list[BackOff]:
    """Merge tasks with equal waits into one entry."""
    alike: dict[tuple[datetime, int], list[Task]] = {}
    for task, one in waits.items():
        if one.not_before:
            alike.setdefault((one.not_before, one.restarts), []).append(task)
    return _bounded(
        [
            BackOff(tasks=ranges(tasks), restarts=restarts, not_before=not_before)
            for (not_before, restarts), tasks in sorted(alike.items())
        ]
    )


def _bounded(entries: list[BackOff]) -> list[BackOff]:
    """Merge entries until they fit into the bytes that a status has room for.

    Then some tasks wait too long, as with one back-off for the whole job; dropping an entry would let a thousand tasks
    that fail at once restart without any wait. If a task is in two entries, the later one counts.
    """
    while len(msgspec.json.encode(entries)) > MOST_BYTES:
        longest = max(entries, key=_length)
        if _length(longest) > LONG:
            entries = [_from_first_to_last(one) if one is longest else one for one in entries]
        else:
            soonest, second, *others = entries
            together = ranges(members(soonest.tasks) | members(second.tasks))
            entries = [replace(second, tasks=together, restarts=max(soonest.restarts, second.restarts)), *others]
    return entries


def _from_first_to_last(one: BackOff) -> BackOff:
    indexes = [(task.index, task.type) for task in members(one.tasks)]
    kinds = {kind: [index for index, other in indexes if other == kind] for kind in one.tasks}
    return replace(one, tasks={kind: f"{min(found)}-{max(found)}" for kind, found in kinds.items()})


def _length(one: BackOff) -> int:
    return sum(map(len, one.tasks.values()))
