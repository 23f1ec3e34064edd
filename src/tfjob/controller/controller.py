"""The loop over jobs: observe, plan, write the status once, act. It is level-triggered and safe to kill at any point.

`current_pass` names the job and the number of the pass that is running, for log records.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count, groupby
from time import monotonic

from msgspec.structs import replace

from tfjob.api.dialect import origin
from tfjob.api.objects import AnyChild, ConfigMap, Deployment, Pod, PodGroup, Service
from tfjob.api.types import TFJob, TFJobStatus
from tfjob.controller.cluster import AlreadyExists, Cluster, Conflict, InvalidJob, Key, Refused
from tfjob.controller.hooks import ERROR, REQUEUE_AFTER, SUCCESS, Observer, Unobserved
from tfjob.controller.queue import WorkQueue
from tfjob.controller.rejections import Refusals
from tfjob.plan.actions import Action, Create, Delete, DeleteJob, Event, Update
from tfjob.plan.build.pods import Settings
from tfjob.plan.facts.conditions import is_finished
from tfjob.plan.facts.tasks import Observed, Repetition
from tfjob.plan.plan import Plan, plan, refusal

logger = logging.getLogger(__name__)

BLOCKING = frozenset({"Forbidden", "NamespaceNotFound", "NamespaceTerminating", "QuotaExceeded"})
"""Refusals that say nothing about the one child: a job of a thousand pods asks once, not a thousand times."""
AT_ONCE = 32
"""How many actions of one pass are under way together, so that a job of a thousand pods does not flood a cluster."""
BESIDE_OTHERS = 1
"""The same for what ended jobs leave while others go on: it must not take the API server from them."""
_numbers = count(1)


class Controller:
    """Brings the jobs of one cluster to what their specs ask for."""

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        observer: Observer | None = None,
    ) -> None:
        self.cluster = cluster
        self.settings = settings or Settings()
        self.clock = clock
        self.observer = observer or Unobserved()
        longest = self.settings.durations.longest_retry
        self.queue = WorkQueue(self.observer, longest)
        self.cleaning = WorkQueue(longest_retry=longest)
        """Jobs that have ended and left something to remove."""
        self._refusals = Refusals()
        self._repeated: dict[Key, dict[str, Repetition]] = {}
        """Deletions that this process has repeated, by the uid of the pod; the next operator starts counting anew."""
        self._untold: dict[Key, tuple[TFJobStatus, Plan]] = {}
        """The status before, and the plan, of writes whose answer was lost: they may have been carried out."""

    async def run(self, workers: int = 1) -> None:
        """Works until cancelled."""
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
        """Begins no further pass, and gives those under way some time to end."""
        self.queue.pause()
        self.cleaning.pause()
        until = monotonic() + seconds
        while (self.queue.working_seconds() or self.cleaning.working_seconds()) and monotonic() < until:
            await asyncio.sleep(0.01)

    async def reconcile(self, key: Key) -> datetime | None:
        """One pass over one job; returns when to look again though nothing changes."""
        job, decision = await self._decide(key)
        untold = self._untold.pop(key, None)
        if job is None:
            self._refusals.forget(key)
            self._repeated.pop(key, None)
            return None
        if _is_new(job) and not is_finished(decision.status) and await self.cluster.complete(job):
            return None  # its echo comes
        if untold is not None and untold[1].status == job.status:
            self._tell(key, job, *untold)
        if decision.status != job.status:
            before = job.status
            job = await self._write_status(key, job, decision)
            self._tell(key, job, before, decision)
        else:
            self._publish(job, decision.news)
        self._refusals.keep(key, decision.actions)
        if not is_finished(job.status):
            await self._carry_out_all(key, job, decision.actions, AT_ONCE)
        elif decision.actions:
            self.cleaning.add(key)
        return decision.again_at

    async def _write_status(self, key: Key, job: TFJob, decision: Plan) -> TFJob:
        try:
            return await self.cluster.update_status(replace(job, status=decision.status))
        except Conflict:
            raise
        except Refused as error:
            self.cluster.publish(job, Event("FailedUpdateStatus", f"Error updating: {error.message}", warning=True))
            raise
        except Exception:
            self._untold[key] = job.status, decision
            raise

    async def clean_up(self, key: Key) -> None:
        """Removes what a job that has ended need not keep."""
        job, decision = await self._decide(key)
        if job is not None and is_finished(job.status):
            at_once = BESIDE_OTHERS if self.queue.working_seconds() else AT_ONCE
            await self._carry_out_all(key, job, decision.actions, at_once)

    async def _decide(self, key: Key) -> tuple[TFJob | None, Plan]:
        """A job and what is to be done about it."""
        try:
            job = await self.cluster.job(key)
        except InvalidJob as error:
            job, observed = error.job, await self._observe(key, error.job)
            return job, refusal(job, observed, error.problems, self.clock(), self.settings)
        if job is None:
            return None, Plan(TFJobStatus())
        return job, plan(job, await self._observe(key, job), self.clock(), self.settings)

    async def _watch(self) -> None:
        async for key in self.cluster.changes():
            self.queue.add(key)

    async def _work(self, queue: WorkQueue, one_pass: Callable[[Key], Awaitable[datetime | None]]) -> None:
        while True:
            key = await queue.get()
            begun, result = monotonic(), ERROR
            try:
                with a_pass(key):
                    again_at = await one_pass(key)
            except Conflict:
                queue.retry(key)
            except Refused as error:
                delay = queue.retry(key)
                logger.warning("an update was refused; again in %.3f s: %s", delay, error.message)
            except Exception:
                delay = queue.retry(key)
                logger.exception("a pass over %s/%s failed; again in %.3f s", key.namespace, key.name, delay)
            else:
                queue.forget(key)
                result = SUCCESS if again_at is None else REQUEUE_AFTER
                if again_at is not None:
                    queue.add_after(key, (again_at - self.clock()).total_seconds())
            finally:
                self.observer.reconciled(result, monotonic() - begun)
                queue.done(key)

    async def _observe(self, key: Key, job: TFJob) -> Observed:
        pods = await self.cluster.children(Pod, job)
        return Observed(
            pods=pods,
            services=await self.cluster.children(Service, job),
            pod_groups=await self.cluster.children(PodGroup, job) if self.settings.gang_scheduler else [],
            config_maps=await self.cluster.children(ConfigMap, job),
            deployments=await self.cluster.children(Deployment, job),
            refusals=self._refusals.of(key, job),
            repeated_deletions=self._repetitions(key, pods),
            lost_nodes=await self.cluster.lost_nodes(),
        )

    def _repetitions(self, key: Key, pods: Sequence[Pod]) -> Mapping[str, Repetition]:
        """Return what was repeated for the pods of a job, and forget pods that are gone."""
        known = self._repeated.get(key)
        if not known:
            return {}
        present = {pod.metadata.uid for pod in pods}
        kept = {uid: one for uid, one in known.items() if uid in present}
        if kept:
            self._repeated[key] = kept
        else:
            del self._repeated[key]
        return kept

    async def _carry_out_all(self, key: Key, job: TFJob, actions: Sequence[Action], at_once: int) -> None:
        """Carries out actions, those of one kind before those of the next."""
        for _, stage in groupby(actions, key=type):
            await self._act(key, job, list(stage), at_once)

    async def _act(self, key: Key, job: TFJob, actions: Sequence[Action], at_once: int) -> None:
        """Carries out actions that do not depend on each other; a failure is raised when all have been tried."""
        remaining, failures, blocked = iter(actions), list[Exception](), set[str]()

        async def work() -> None:
            for action in remaining:
                if isinstance(action, Create) and action.child.kind in blocked:
                    continue  # it would be refused for the same reason as the one before
                try:
                    await self._carry_out(key, job, action)
                    if isinstance(action, Create) and self._refusals.reason(key, action.child) in BLOCKING:
                        blocked.add(action.child.kind)
                except Exception as error:
                    failures.append(error)

        if len(actions) == 1:
            await work()
        else:
            await asyncio.gather(*(work() for _ in range(min(at_once, len(actions)))))
        if failures:
            raise failures[0]

    async def _carry_out(self, key: Key, job: TFJob, action: Action) -> None:
        match action:
            case Create(child):
                await self._create(key, job, child)
            case Update(child):
                await self._update(job, child)
            case Delete(kind, name, uid, overdue):
                if overdue is not None:
                    self._count_repetition(key, uid)
                await self.cluster.delete(kind, Key(job.metadata.namespace, name), uid)
                self.cluster.publish(job, self._deleted(job, kind, name, overdue))
            case DeleteJob():
                await self.cluster.delete(key.kind, key, job.metadata.uid)
                self.observer.job_deleted(key)

    def _count_repetition(self, key: Key, uid: str) -> None:
        """Remember a repeated deletion before it is tried: if it fails, the next one also waits its time."""
        known = self._repeated.setdefault(key, {})
        known[uid] = Repetition(known[uid].count + 1 if uid in known else 1, self.clock())

    def _deleted(self, job: TFJob, kind: str, name: str, overdue: timedelta | None) -> Event:
        kept = self.cluster.kept_as(kind, job)
        if overdue is None:
            return Event(f"SuccessfulDelete{kept}", f"Deleted {_spelt(kept)}: {name}")
        late = f"it is still terminating {overdue.total_seconds():.0f} s after its deletion was due"
        return Event("RepeatedDelete", f"Deleted {_spelt(kept)} {name} again: {late}", warning=True)

    async def _update(self, job: TFJob, child: PodGroup) -> None:
        try:
            await self.cluster.update(child)
        except Refused as error:
            text = f"Error updating: {error.message}"
            self.cluster.publish(job, Event(f"FailedUpdate{child.kind}", text, warning=True))
            raise

    async def _create(self, key: Key, job: TFJob, child: AnyChild) -> None:
        kind, name = self.cluster.kept_as(child.kind, job), child.metadata.name
        try:
            await self.cluster.create(child)
        except AlreadyExists as error:
            if error.ours:
                self._refusals.drop(key, child)
            else:
                self._refuse(
                    key, job, child, "NameTaken", f"{_spelt(kind)} {name} exists and belongs to something else"
                )
        except Refused as error:
            self._refuse(key, job, child, error.reason, error.message)
        else:
            self._refusals.drop(key, child)
            if not isinstance(child, PodGroup):  # of which v1.9 says nothing
                self.cluster.publish(job, Event(f"SuccessfulCreate{kind}", f"Created {_spelt(kind)}: {name}"))

    def _tell(self, key: Key, job: TFJob, before: TFJobStatus, decision: Plan) -> None:
        """Lets users, those who measure and those who read logs know what became of a job."""
        after = decision.status
        self._publish(job, decision.news)
        self.observer.status_changed(key, before, after)
        if (before.state, before.reason) != (after.state, after.reason):
            logger.info("%s", after.state, extra={"reason": after.reason, "details": after.message})

    def _publish(self, job: TFJob, news: Sequence[Event]) -> None:
        for one in news:
            self.cluster.publish(job, one)

    def _refuse(self, key: Key, job: TFJob, child: AnyChild, reason: str, message: str) -> None:
        """Tries again later; the words of a new refusal reach the status at once."""
        now = self.clock()
        if self._refusals.add(key, job, child, reason, message, now):
            kind = self.cluster.kept_as(child.kind, job)
            self.cluster.publish(job, Event(f"FailedCreate{kind}", f"Error creating: {message}", warning=True))
            self.queue.add(key)
        age = now - self._refusals.of(key, job)[child.kind, child.metadata.name].since
        durations = self.settings.durations
        delay = min(max(durations.rejection_retry, age / 4), durations.longest_rejection_retry)
        self.queue.add_after(key, delay.total_seconds())


def _is_new(job: TFJob) -> bool:
    """Whether a TfJob has a spec that was not looked at before."""
    return origin(job).is_tensorflow_org and job.metadata.generation != job.status.observed_generation


def _spelt(kind: str) -> str:
    """A kind within a sentence, as v1.9 spells it: `pod`, `service`, `PodGroup`."""
    return kind if kind == "PodGroup" else kind.lower()


@dataclass(frozen=True)
class Pass:
    """One look at one job; the number is unique within the process."""

    key: Key
    id: int


_current: ContextVar[Pass | None] = ContextVar("pass", default=None)


def current_pass() -> Pass | None:
    """The pass that this task works on, if any."""
    return _current.get()


@contextmanager
def a_pass(key: Key) -> Iterator[None]:
    """Marks the time of one pass."""
    token = _current.set(Pass(key, next(_numbers)))
    try:
        yield
    finally:
        _current.reset(token)
