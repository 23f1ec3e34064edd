"""The loop: observe, plan, write the status once, act. It is level-triggered and safe to kill at any point."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from itertools import count, groupby
from time import monotonic
from typing import Any

from msgspec.structs import replace

from tfjob.api.objects import Object, PodGroup
from tfjob.controller.actions import Action, Create, Delete, DeleteOwner, Event, RemoveFinalizer, Update
from tfjob.controller.cluster import AlreadyExists, Cluster, Conflict, Rejected
from tfjob.controller.hooks import ERROR, REQUEUE_AFTER, SUCCESS, Hooks
from tfjob.controller.kind import Invalid, Key, Kind, Observation, OwnerObject, Plan, Rejection, Repetition, Status
from tfjob.controller.queue import WorkQueue
from tfjob.durations import USUAL, Durations

logger = logging.getLogger(__name__)

BLOCKING = frozenset({"Forbidden", "NamespaceNotFound", "NamespaceTerminating", "QuotaExceeded"})
"""Rejections that do not depend on the child: a pass tries one of a thousand pods, not all of them."""
AT_ONCE = 32
"""How many actions of one pass run at the same time, so that an owner of a thousand pods does not flood a cluster."""
CLEANING_AT_ONCE = 1
"""How many clean-up actions run at the same time while other owners run: they need the API server more."""
current_pass: ContextVar[tuple[Key, int] | None] = ContextVar("pass", default=None)
"""The owner and the number of the pass that is running, for log records."""
_numbers = count(1)
Name = tuple[str, str]
"""Kind and name of a child: the pod and the service of a replica have the same name."""


class Controller:
    """Makes the owners of one cluster match their specs."""

    def __init__(
        self,
        cluster: Cluster,
        kinds: Iterable[Kind[Any]],
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        hooks: Hooks | None = None,
        durations: Durations = USUAL,
    ) -> None:
        self.cluster = cluster
        self.kinds = {kind.resource.kind: kind for kind in kinds}
        self.clock = clock
        self.hooks = hooks or Hooks()
        self.durations = durations
        self.queue = WorkQueue(self.hooks, durations.longest_retry)
        self.cleaning = WorkQueue(longest_retry=durations.longest_retry)
        """Finished owners with children to remove."""
        self._rejections = Rejections()
        self._repeated: dict[Key, dict[str, Repetition]] = {}
        """Deletions that this process has repeated, by the uid of the child; the next process counts from zero."""
        self._unconfirmed: dict[Key, tuple[Status, Plan[Status]]] = {}
        """The old status and the plan of status writes whose answer was lost: the server may have applied them."""

    async def run(self, workers: int = 1) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._watch())
                tasks.create_task(self._work(self.cleaning, self.clean_up))
                for _ in range(workers):
                    tasks.create_task(self._work(self.queue, self.reconcile))
        finally:
            self.queue.close()
            self.cleaning.close()

    async def drain(self, seconds: float) -> None:
        """Start no more passes, and wait up to `seconds` for running ones to end."""
        self.queue.pause()
        self.cleaning.pause()
        until = monotonic() + seconds
        while (self.queue.working_seconds() or self.cleaning.working_seconds()) and monotonic() < until:
            await asyncio.sleep(0.01)

    async def reconcile(self, key: Key) -> datetime | None:
        """Make one pass over one owner; return when the next one is due even if nothing changes."""
        kind = self.kinds[key.kind]
        owner, plan = await self.decide(key)
        unconfirmed = self._unconfirmed.pop(key, None)
        if owner is None:
            self._rejections.forget(key)
            self._repeated.pop(key, None)
            return None
        planned = replace(owner, status=plan.status)
        if not kind.is_finished(planned) and await self.cluster.complete(key, owner):
            return None  # the write wakes this owner again
        if unconfirmed is not None and unconfirmed[1].status == owner.status:
            self._report(key, owner, *unconfirmed)
        if plan.status != owner.status:
            before = owner.status
            owner = await self._write_status(key, before, planned, plan)
            self._report(key, owner, before, plan)
        else:
            self._publish(key, owner, plan.events)
        self._rejections.keep(key, plan.actions)
        if not kind.is_finished(owner):
            await self._carry_out_all(key, owner, plan.actions, AT_ONCE)
        elif plan.actions:
            self.cleaning.add(key)
        return plan.again_at

    async def _write_status(self, key: Key, before: Status, planned: Any, plan: Plan[Status]) -> Any:
        try:
            return await self.cluster.update_status(key, planned)
        except Conflict:
            raise
        except Rejected as error:
            event = Event("FailedUpdateStatus", f"Error updating: {error.message}", warning=True)
            self.cluster.publish(key, planned, event)
            raise
        except Exception:
            self._unconfirmed[key] = before, plan
            raise

    async def clean_up(self, key: Key) -> None:
        """Remove the children that a finished owner does not keep."""
        owner, plan = await self.decide(key)
        if owner is not None and self.kinds[key.kind].is_finished(owner):
            at_once = CLEANING_AT_ONCE if self.queue.working_seconds() else AT_ONCE
            await self._carry_out_all(key, owner, plan.actions, at_once)

    async def decide(self, key: Key) -> tuple[Any, Plan[Any]]:
        """Return an owner, or None if it is gone, and the plan for it."""
        kind = self.kinds[key.kind]
        try:
            owner = await self.cluster.owner(key)
        except Invalid as error:
            owner = error.owner
            return owner, kind.reject(owner, await self._observe(key, owner), error.problems, self.clock())
        if owner is None:
            return None, Plan(None)
        return owner, kind.plan(owner, await self._observe(key, owner), self.clock())

    async def _watch(self) -> None:
        async for key in self.cluster.changes():
            self.queue.add(key)

    async def _work(self, queue: WorkQueue, one_pass: Callable[[Key], Awaitable[datetime | None]]) -> None:
        while True:
            key = await queue.get()
            begun, result = monotonic(), ERROR
            try:
                current_pass.set((key, next(_numbers)))
                again_at = await one_pass(key)
            except Conflict:
                queue.retry(key)
            except Rejected as error:
                delay = queue.retry(key)
                logger.warning("an update was rejected; retrying in %.3f s: %s", delay, error.message)
            except Exception:
                delay = queue.retry(key)
                logger.exception("a pass over %s/%s failed; retrying in %.3f s", key.namespace, key.name, delay)
            else:
                queue.forget(key)
                result = SUCCESS if again_at is None else REQUEUE_AFTER
                if again_at is not None:
                    queue.add_after(key, (again_at - self.clock()).total_seconds())
            finally:
                current_pass.set(None)
                self.hooks.reconciled(key, result, monotonic() - begun)
                queue.done(key)

    async def _observe(self, key: Key, owner: Any) -> Observation:
        types = self.kinds[key.kind].children
        children: dict[type[Any], list[Any]] = {one: await self.cluster.children(one, key, owner) for one in types}
        return Observation(
            children,
            rejections=self._rejections.of(key, owner),
            repeated_deletions=dict(self._repeated.get(key, {})),
            lost_nodes=await self.cluster.lost_nodes(),
        )

    async def _carry_out_all(self, key: Key, owner: Any, actions: Sequence[Action], at_once: int) -> None:
        """Carry out actions, those of one type before those of the next."""
        for _, stage in groupby(actions, key=type):
            await self._act(key, owner, list(stage), at_once)

    async def _act(self, key: Key, owner: Any, actions: Sequence[Action], at_once: int) -> None:
        """Carry out independent actions; try all of them before raising the first failure."""
        remaining, failures, blocked = iter(actions), list[Exception](), set[str]()

        async def work() -> None:
            for action in remaining:
                if isinstance(action, Create) and action.child.kind in blocked:
                    continue  # it would be rejected for the same reason as the one before
                try:
                    if await self._carry_out(key, owner, action) in BLOCKING and isinstance(action, Create):
                        blocked.add(action.child.kind)
                except Exception as error:
                    failures.append(error)

        if len(actions) == 1:
            await work()
        else:
            await asyncio.gather(*(work() for _ in range(min(at_once, len(actions)))))
        if failures:
            raise failures[0]

    async def _carry_out(self, key: Key, owner: Any, action: Action) -> str:
        """Carry out one action; return the reason if the cluster rejects a child."""
        match action:
            case Create(child):
                return await self._create(key, owner, child)
            case Update(child):
                try:
                    await self.cluster.update(child)
                except Rejected as error:
                    event = Event(f"FailedUpdate{child.kind}", f"Error updating: {error.message}", warning=True)
                    self.cluster.publish(key, owner, event)
                    raise
            case Delete(kind, name, uid, overdue):
                if overdue is not None:  # counted before the attempt: if it fails, the next one still waits
                    known = self._repeated.setdefault(key, {})
                    known[uid] = Repetition(known[uid].count + 1 if uid in known else 1, self.clock())
                await self.cluster.delete(Key(key.namespace, name, kind), uid)
                self.cluster.publish(key, owner, _deleted(self.cluster.kept_as(kind, key), name, overdue))
            case RemoveFinalizer(finalizer):
                await self.cluster.remove_finalizer(key, owner, finalizer)
            case DeleteOwner():
                await self.cluster.delete(key, owner.metadata.uid)
                self.hooks.owner_deleted(key)
        return ""

    async def _create(self, key: Key, owner: Any, child: Object) -> str:
        kind, name = self.cluster.kept_as(child.kind, key), child.metadata.name
        try:
            await self.cluster.create(child)
        except AlreadyExists as error:
            if not error.ours:
                message = f"{_in_sentence(kind)} {name} already exists and does not belong to {key.kind} {key.name}"
                return self._reject(key, owner, child, "NameTaken", message)
        except Rejected as error:
            return self._reject(key, owner, child, error.reason, error.message)
        else:
            if not isinstance(child, PodGroup):  # training-operator publishes no event for them
                event = Event(f"SuccessfulCreate{kind}", f"Created {_in_sentence(kind)}: {name}")
                self.cluster.publish(key, owner, event)
        self._rejections.drop(key, child)
        return ""

    def _reject(self, key: Key, owner: Any, child: Object, reason: str, message: str) -> str:
        """Retry later; the message of a new rejection reaches the status at once."""
        now = self.clock()
        if self._rejections.add(key, owner, child, reason, message, now):
            kind = self.cluster.kept_as(child.kind, key)
            event = Event(f"FailedCreate{kind}", f"Error creating: {message}", warning=True)
            self.cluster.publish(key, owner, event)
            self.queue.add(key)
        age = now - self._rejections.of(key, owner)[child.kind, child.metadata.name].since
        delay = min(max(self.durations.rejection_retry, age / 4), self.durations.longest_rejection_retry)
        self.queue.add_after(key, delay.total_seconds())
        return reason

    def _report(self, key: Key, owner: Any, before: Status, plan: Plan[Status]) -> None:
        after = plan.status
        self._publish(key, owner, plan.events)
        self.hooks.status_changed(key, before, after)
        if (before.state, before.reason) != (after.state, after.reason):
            logger.info("%s", after.state, extra={"reason": after.reason, "details": after.message})

    def _publish(self, key: Key, owner: Any, events: Sequence[Event]) -> None:
        for event in events:
            self.cluster.publish(key, owner, event)


def _deleted(kind: str, name: str, overdue: timedelta | None) -> Event:
    if overdue is None:
        return Event(f"SuccessfulDelete{kind}", f"Deleted {_in_sentence(kind)}: {name}")
    late = f"it is still terminating {overdue.total_seconds():.0f} s after its deletion was due"
    return Event("RepeatedDelete", f"Deleted {_in_sentence(kind)} {name} again: {late}", warning=True)


def _in_sentence(kind: str) -> str:
    """Return a kind as v1.9 writes it in a sentence: `pod`, `service`, `PodGroup`."""
    return kind if kind == "PodGroup" else kind.lower()


class Rejections:
    """Children that the cluster refuses to create, by owner; a new owner of the same name starts without any."""

    def __init__(self) -> None:
        self._of: dict[Key, tuple[str, dict[Name, Rejection]]] = {}

    def of(self, key: Key, owner: OwnerObject) -> Mapping[Name, Rejection]:
        uid, found = self._of.get(key, ("", {}))
        return dict(found) if uid == owner.metadata.uid else {}

    def add(self, key: Key, owner: OwnerObject, child: Object, reason: str, message: str, now: datetime) -> bool:
        """Record a rejection, with the time of the first one; return whether its reason is new."""
        found, name = self.of(key, owner), (child.kind, child.metadata.name)
        before = found.get(name)
        rejection = Rejection(reason, message, before.since if before else now)
        self._of[key] = owner.metadata.uid, {**found, name: rejection}
        return before is None or before.reason != reason

    def drop(self, key: Key, child: Object) -> None:
        if key in self._of:
            self._of[key][1].pop((child.kind, child.metadata.name), None)

    def keep(self, key: Key, actions: Sequence[Action]) -> None:
        """Forget children that the plan no longer creates: they exist, or the owner was scaled, stopped or ended."""
        children = (action.child for action in actions if isinstance(action, Create))
        wanted = {(child.kind, child.metadata.name) for child in children}
        uid, found = self._of.pop(key, ("", {}))
        if kept := {name: rejection for name, rejection in found.items() if name in wanted}:
            self._of[key] = uid, kept

    def forget(self, key: Key) -> None:
        self._of.pop(key, None)
