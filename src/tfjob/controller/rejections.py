"""Children that the cluster refuses to create: why, and since when, for as long as the plan asks for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from tfjob.api.objects import Object
from tfjob.controller.actions import Action, Create
from tfjob.controller.kind import Key, OwnerObject, Rejection

Name = tuple[str, str]
"""Kind and name: the pod and the service of a replica have the same name."""


class Rejections:
    """The rejections of every owner; those of one owner do not concern the next one of its name."""

    def __init__(self) -> None:
        self._uids: dict[Key, str] = {}
        self._of: dict[Key, dict[Name, Rejection]] = {}

    def of(self, key: Key, owner: OwnerObject) -> Mapping[Name, Rejection]:
        return dict(self._of.get(key, {})) if self._uids.get(key) == owner.metadata.uid else {}

    def add(self, key: Key, owner: OwnerObject, child: Object, reason: str, message: str, now: datetime) -> bool:
        """Remember a rejection from its first time on, so that a grace period can end; return whether it is new."""
        if self._uids.get(key) != owner.metadata.uid:
            self._uids[key], self._of[key] = owner.metadata.uid, {}
        name = (child.kind, child.metadata.name)
        before = self._of[key].get(name)
        self._of[key][name] = Rejection(reason, message, before.since if before else now)
        return before is None or before.reason != reason

    def reason(self, key: Key, child: Object) -> str:
        rejection = self._of.get(key, {}).get((child.kind, child.metadata.name))
        return rejection.reason if rejection else ""

    def drop(self, key: Key, child: Object) -> None:
        self._of.get(key, {}).pop((child.kind, child.metadata.name), None)

    def keep(self, key: Key, actions: Sequence[Action]) -> None:
        """Forget what the plan no longer wants to create: it exists, or the owner was scaled, stopped or ended."""
        children = (action.child for action in actions if isinstance(action, Create))
        wanted = {(child.kind, child.metadata.name) for child in children}
        kept = {name: rejection for name, rejection in self._of.get(key, {}).items() if name in wanted}
        if kept:
            self._of[key] = kept
        else:
            self.forget(key)

    def forget(self, key: Key) -> None:
        self._uids.pop(key, None)
        self._of.pop(key, None)
