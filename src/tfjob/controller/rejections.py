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
    """The rejections of every owner, with its uid: a new owner of the same name starts without any."""

    def __init__(self) -> None:
        self._of: dict[Key, tuple[str, dict[Name, Rejection]]] = {}

    def of(self, key: Key, owner: OwnerObject) -> Mapping[Name, Rejection]:
        uid, found = self._of.get(key, ("", {}))
        return dict(found) if uid == owner.metadata.uid else {}

    def add(self, key: Key, owner: OwnerObject, child: Object, reason: str, message: str, now: datetime) -> bool:
        """Record a rejection, with the time of the first one; return whether its reason is new."""
        found, name = self.of(key, owner), _name(child)
        before = found.get(name)
        rejection = Rejection(reason, message, before.since if before else now)
        self._of[key] = owner.metadata.uid, {**found, name: rejection}
        return before is None or before.reason != reason

    def drop(self, key: Key, child: Object) -> None:
        if key in self._of:
            self._of[key][1].pop(_name(child), None)

    def keep(self, key: Key, actions: Sequence[Action]) -> None:
        """Forget children that the plan no longer creates: they exist, or the owner was scaled, stopped or ended."""
        wanted = {_name(action.child) for action in actions if isinstance(action, Create)}
        uid, found = self._of.pop(key, ("", {}))
        if kept := {name: rejection for name, rejection in found.items() if name in wanted}:
            self._of[key] = uid, kept

    def forget(self, key: Key) -> None:
        self._of.pop(key, None)


def _name(child: Object) -> Name:
    return child.kind, child.metadata.name
