"""The last seen objects of one kind, by name and by one index."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Generic, Protocol, TypeVar

from tfjob.api.objects import ObjectMeta

Name = tuple[str, str]
"""Namespace and name."""


class Identified(Protocol):
    """An object with metadata."""

    @property
    def metadata(self) -> ObjectMeta: ...


T = TypeVar("T", bound=Identified)


class ObjectStore(Generic[T]):
    """Objects by name; `index` returns an additional key for each object, or None.

    `on_change(old, new)` is called after each change: old is None for a new object, new is None for one that is gone.
    For an object that replaces another with the same name, it is called once for the removal and once for the addition.
    """

    def __init__(
        self,
        index: Callable[[T], Hashable | None] | None = None,
        on_change: Callable[[T | None, T | None], None] | None = None,
    ) -> None:
        self.on_change = on_change
        self._index = index
        self._items: dict[Name, T] = {}
        self._groups: dict[Hashable, dict[Name, T]] = {}

    def __len__(self) -> int:
        return len(self._items)

    def get(self, namespace: str, name: str) -> T | None:
        return self._items.get((namespace, name))

    def by_index(self, key: Hashable) -> list[T]:
        group = self._groups.get(key)
        return list(group.values()) if group else []

    def all(self) -> list[T]:
        return list(self._items.values())

    def put(self, item: T) -> None:
        metadata = item.metadata
        name = (metadata.namespace, metadata.name)
        old = self._items.get(name)
        if old is not None:
            if old.metadata.resource_version == metadata.resource_version:
                return
            if old.metadata.uid != metadata.uid:
                self.remove(*name)
                old = None
        self._items[name] = item
        if self._index is not None:
            key = self._index(item)
            if old is not None and (before := self._index(old)) != key:
                self._ungroup(before, name)
            if key is not None:
                self._groups.setdefault(key, {})[name] = item
        if self.on_change is not None:
            self.on_change(old, item)

    def remove(self, namespace: str, name: str, last: T | None = None) -> None:
        """Remove an object; `last` is its final state, which may be newer than the stored one."""
        item = self._items.pop((namespace, name), None)
        if item is None:
            return
        if self._index is not None:
            self._ungroup(self._index(item), (namespace, name))
        if self.on_change is not None:
            self.on_change(last or item, None)

    def replace(self, items: Iterable[T], kept: Collection[Name] = ()) -> None:
        """Replace all objects; those in `kept` exist too, but their new state is unknown."""
        there = set(kept)
        for item in items:
            there.add((item.metadata.namespace, item.metadata.name))
            self.put(item)
        for name in [name for name in self._items if name not in there]:
            self.remove(*name)

    def _ungroup(self, key: Hashable | None, name: Name) -> None:
        group = self._groups.get(key)
        if group is not None:
            group.pop(name, None)
            if not group:
                del self._groups[key]
