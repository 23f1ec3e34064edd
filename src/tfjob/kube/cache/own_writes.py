"""What this process wrote and its caches do not show yet, so that no decision uses a stale view.

A cache lags behind the API server by a few milliseconds. Between a write and its echo, the next pass would create the
same child again (rejected because the name is taken, but at the cost of a request) or overwrite its own status.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from tfjob.api.objects import Object
from tfjob.controller.kind import Child, Key, Stored
from tfjob.durations import USUAL

REMEMBERED_ENDS = 10_000


class OwnWrites:
    """Writes without an echo so far: children by their owner's uid, owners by key."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, patience: timedelta = USUAL.own_write) -> None:
        self._clock = clock
        self._patience = patience.total_seconds()
        self._created: dict[str, dict[str, tuple[float, Object]]] = {}
        self._deleting: dict[str, tuple[float, datetime]] = {}
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._owners: dict[Key, Stored] = {}

    # --- called by the writer -----------------------------------------------------------------------------------

    def created(self, owner: str, child: Object) -> None:
        """Note a created child, unless a cache has already shown its end."""
        if child.metadata.uid not in self._ended:
            self._created.setdefault(owner, {})[child.metadata.uid] = (self._clock(), child)

    def deleted(self, uid: str) -> None:
        if uid not in self._ended:
            self._deleting[uid] = (self._clock(), datetime.now(UTC).replace(microsecond=0))

    def written(self, owner: Stored, shown: Stored | None) -> None:
        """Note the answer to a written status; `shown` is the cached object, which may be newer."""
        if shown is not None and _is_older(shown, owner):
            self._owners[owner.key] = owner

    # --- called by the caches -----------------------------------------------------------------------------------

    def seen(self, owner: str, before: Object | Stored | None, after: Object | Stored | None) -> None:
        known = after or before
        assert known is not None
        uid = known.metadata.uid
        self._drop(owner, uid)
        if after is None:
            self._ended[uid] = None
            if len(self._ended) > REMEMBERED_ENDS:
                self._ended.popitem(last=False)
        if after is None or after.metadata.deletion_timestamp is not None:
            self._deleting.pop(uid, None)

    def seen_owner(self, key: Key, after: Stored | None) -> bool:
        """Note that a cache shows an owner, or its end; return whether that only echoes our own write."""
        own = self._owners.get(key)
        if own is None:
            return False
        if after is not None and _is_older(after, own):
            return True
        del self._owners[key]
        return after is not None and after.metadata.resource_version == own.metadata.resource_version

    # --- called before a decision -------------------------------------------------------------------------------

    def owner(self, cached: Stored) -> Stored:
        own = self._owners.get(cached.key)
        return own if own is not None and own.metadata.uid == cached.metadata.uid else cached

    def children(self, kind: type[Child], owner: str, cached: Sequence[Child]) -> list[Child]:
        """Return the children of an owner: those that the cache shows or will show."""
        shown = [self._marked(child) for child in cached] if self._deleting else list(cached)
        made = self._created.get(owner)
        if made:
            names = {child.metadata.uid for child in shown}
            shown += [
                self._marked(child) for uid, (_, child) in made.items() if isinstance(child, kind) and uid not in names
            ]
        return shown

    def missed(self, kind: str, version: str) -> set[str]:
        """Return the owners of children that a later list of their kind lacks: they were deleted while no watch ran."""
        return self._give_up(
            lambda _, child: child.kind == kind and _precedes(child.metadata.resource_version, version)
        )

    def expired(self) -> set[str]:
        """Give up on echoes that never came; return the owners to reconcile again."""
        limit = self._clock() - self._patience
        self._deleting = {uid: one for uid, one in self._deleting.items() if one[0] >= limit}
        return self._give_up(lambda since, _: since < limit)

    def _give_up(self, is_lost: Callable[[float, Object], bool]) -> set[str]:
        lost = [
            (owner, uid)
            for owner, made in self._created.items()
            for uid, (since, child) in made.items()
            if is_lost(since, child)
        ]
        for owner, uid in lost:
            self._drop(owner, uid)
        return {owner for owner, _ in lost}

    def _marked(self, child: Child) -> Child:
        deletion = self._deleting.get(child.metadata.uid)
        if deletion is None or child.metadata.deletion_timestamp is not None:
            return child
        found: Any = child
        marked: Child = replace(found, metadata=replace(child.metadata, deletion_timestamp=deletion[1]))
        return marked

    def _drop(self, owner: str, uid: str) -> None:
        made = self._created.get(owner)
        if made is not None and made.pop(uid, None) is not None and not made:
            del self._created[owner]


def _is_older(one: Stored, other: Stored) -> bool:
    same = one.metadata.uid == other.metadata.uid
    return same and _precedes(one.metadata.resource_version, other.metadata.resource_version)


def _precedes(one: str, other: str) -> bool:
    """Return whether a version certainly precedes another; versions grow with every write of a kind."""
    return one.isdigit() and other.isdigit() and int(one) < int(other)
