"""Children that the cluster would not create: why, and since when, for as long as the plan asks for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from tfjob.api.objects import AnyChild
from tfjob.api.types import TFJob
from tfjob.controller.cluster import Key
from tfjob.plan.actions import Action, Create
from tfjob.plan.facts.tasks import Refusal

Name = tuple[str, str]
"""Kind and name: the pod and the service of a task have the same name."""


class Refusals:
    """The refusals of every job; those of a job do not concern the next one of its name."""

    def __init__(self) -> None:
        self._uids: dict[Key, str] = {}
        self._of: dict[Key, dict[Name, Refusal]] = {}

    def of(self, key: Key, job: TFJob) -> Mapping[Name, Refusal]:
        """What was refused to a job."""
        return dict(self._of.get(key, {})) if self._uids.get(key) == job.metadata.uid else {}

    def add(self, key: Key, job: TFJob, child: AnyChild, reason: str, message: str, now: datetime) -> bool:
        """Remembers a refusal from its first time on, so that a grace can end; returns whether it is news."""
        if self._uids.get(key) != job.metadata.uid:
            self._uids[key], self._of[key] = job.metadata.uid, {}
        name = (child.kind, child.metadata.name)
        before = self._of[key].get(name)
        self._of[key][name] = Refusal(reason, message, before.since if before else now)
        return before is None or before.reason != reason

    def reason(self, key: Key, child: AnyChild) -> str:
        """Why a child was refused; empty if it was not."""
        refusal = self._of.get(key, {}).get((child.kind, child.metadata.name))
        return refusal.reason if refusal else ""

    def drop(self, key: Key, child: AnyChild) -> None:
        """Forgets a refusal, because the child is there now."""
        self._of.get(key, {}).pop((child.kind, child.metadata.name), None)

    def keep(self, key: Key, actions: Sequence[Action]) -> None:
        """Forgets what the plan no longer wants to create: it exists, or the job was scaled, stopped or ended."""
        children = (action.child for action in actions if isinstance(action, Create))
        wanted = {(child.kind, child.metadata.name) for child in children}
        kept = {name: refusal for name, refusal in self._of.get(key, {}).items() if name in wanted}
        if kept:
            self._of[key] = kept
        else:
            self.forget(key)

    def forget(self, key: Key) -> None:
        """Forgets a job."""
        self._uids.pop(key, None)
        self._of.pop(key, None)
