"""A Kubernetes API server as the loop's cluster: read from caches, written with fences.

A status write is fenced by the version that was read, a deletion by the uid that was seen, a creation by its name.
`OwnWrites` covers the time until the caches show a write. There is one cache per kind of owner and one per type of
child; an owner that is the child of another owner has one cache for both.

The functions below the class decide which changes of a child matter, and why the API server rejected an object.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal, Protocol

import msgspec
from msgspec.structs import replace

from tfjob.api.objects import OPERATOR_NAME, OPERATOR_NAME_LABEL, Object, Pod, PodGroup
from tfjob.api.resources import NODES, Resource
from tfjob.controller.actions import Event
from tfjob.controller.cluster import AlreadyExists, Conflict, Rejected
from tfjob.controller.kind import Child, Key, Kind, Owner, OwnerObject, Stored, decode_readable
from tfjob.kube.access import errors
from tfjob.kube.cache.decode import CHILD_TYPES, Node, decode_node, decode_owner
from tfjob.kube.cache.own_writes import OwnWrites
from tfjob.kube.cache.reflector import Reflector
from tfjob.kube.cache.store import ObjectStore
from tfjob.kube.client.client import Client
from tfjob.kube.cluster.event_log import EventLog

OURS = f"{OPERATOR_NAME_LABEL}={OPERATOR_NAME}"
START_SECONDS = 0.2
"""How long the start of a pod waits for its peers, so that a job becomes Running with one status write."""
BAD_REQUEST, TOO_LARGE = 400, 413
Propagation = Literal["Background", "Foreground"]


class CustomStorage(Protocol):
    """How one kind stores its objects differently; only the 2017 TfJob needs it."""

    wrapper: type[Any]
    """The type of object that wraps each pod."""

    async def complete(self, owner: Any, stored: Stored, others: Iterable[Stored]) -> bool:
        """Write defaults into the stored spec; return whether any were missing. `others` are in the same namespace."""

    def wrap(self, pod: Pod) -> Any:
        """Return the object that wraps a pod."""

    def unwrap(self, wrapper: Any, pods: Sequence[Pod]) -> Pod:
        """Return the pod in a wrapper; `pods` are those that exist for it."""

    def missing_selector(self, wrapper: Any) -> str:
        """Return the selector of a wrapper's pods if some should exist that no cache shows; else empty."""


class KubeCluster:
    """The owners of all namespaces, or of one, and their children.

    `resources` are those of child types that depend on the installation, such as a gang scheduler's pod groups.
    `watch_nodes` needs a permission that no Role can grant; without it, a lost node is noticed when its pods are
    evicted.
    """

    def __init__(
        self,
        client: Client,
        event_log: EventLog,
        kinds: Iterable[Kind[Any]],
        *,
        namespace: str = "",
        resources: Mapping[type[Any], Resource] | None = None,
        storages: Mapping[str, CustomStorage] | None = None,
        watch_nodes: bool = True,
    ) -> None:
        self.client = client
        self.event_log = event_log
        self.kinds = {kind.resource.kind: kind for kind in kinds}
        self._storages = storages or {}
        self._writes = OwnWrites(patience=client.durations.own_write)
        self._changed: dict[Key, None] = {}  # ordered and unique: a standby collects them for weeks
        self._soon: dict[Key, asyncio.TimerHandle] = {}
        self._wake = asyncio.Event()
        self._lost_nodes: frozenset[str] = frozenset()
        self._by_type = {kind.owner_type: kind for kind in self.kinds.values()}
        self.owners: dict[str, ObjectStore[Stored]] = {
            name: ObjectStore(index=owner_uid, on_change=self._owner_changed) for name in self.kinds
        }
        self.nodes: ObjectStore[Node] = ObjectStore(on_change=self._node_changed)
        owned = [child for kind in self.kinds.values() for child in kind.children if child not in self._by_type]
        wrappers = [storage.wrapper for storage in self._storages.values()]
        types: list[type[Any]] = [Pod, *owned, *wrappers]
        self._stores: dict[type[Any], ObjectStore[Any]] = {
            child: ObjectStore(index=owner_uid, on_change=self._child_changed) for child in dict.fromkeys(types)
        }
        self.pods: ObjectStore[Pod] = self._stores[Pod]
        known = {child: (resources or {}).get(child, CHILD_TYPES[child].resource) for child in self._stores}
        self._resources = {
            **{child.__name__: resource for child, resource in known.items()},
            **{name: kind.resource for name, kind in self.kinds.items()},
        }
        self.reflectors: list[Reflector[Any]] = [
            Reflector(client, self.kinds[name].resource, partial(decode_owner, name), store, namespace)
            for name, store in self.owners.items()
        ]
        for child, resource in known.items():
            decode, store = CHILD_TYPES[child].decode, self._stores[child]
            listed = partial(self._listed, child.__name__)
            # Pod groups have the labels that their scheduler documents, not ours.
            selector = "" if child is PodGroup else OURS
            reflector = Reflector(client, resource, decode, store, namespace, selector, on_listed=listed)
            self.reflectors.append(reflector)
        if watch_nodes:
            self.reflectors.append(Reflector(client, NODES, decode_node, self.nodes))

    async def follow(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for reflector in self.reflectors:
                tasks.create_task(reflector.run())
            tasks.create_task(self._sweep())

    async def synced(self) -> None:
        for reflector in self.reflectors:
            await reflector.synced.wait()

    # --- what the loop calls ------------------------------------------------------------------------------------

    async def changes(self) -> AsyncIterator[Key]:
        while True:
            while self._changed:
                key = next(iter(self._changed))
                del self._changed[key]
                yield key
            self._wake.clear()
            await self._wake.wait()

    async def owner(self, key: Key) -> Any:
        stored = self._stored(key)
        return None if stored is None else self.kinds[key.kind].decode(self._writes.owner(stored))

    async def complete(self, key: Key, owner: OwnerObject) -> bool:
        storage = self._storages.get(key.kind)
        if storage is None:
            return False
        stored = self._stored(key)
        if stored is None or stored.metadata.resource_version != owner.metadata.resource_version:
            raise Conflict(key.name)
        others = (one for one in self.owners[key.kind].all() if one.metadata.namespace == key.namespace)
        with _fenced():
            return await storage.complete(owner, stored, others)

    async def children(self, child: type[Child], key: Key, owner: OwnerObject) -> list[Child]:
        """Return the children of this owner by uid: an earlier owner with the same name had others."""
        if (kind := self._by_type.get(child)) is not None:
            stored = self.owners[kind.resource.kind].by_index(owner.metadata.uid)
            shown = [decode_readable(kind, self._writes.owner(one)) for one in stored]
            return self._writes.children(child, owner.metadata.uid, shown)
        if child is Pod and (storage := self._storages.get(key.kind)) is not None:
            wrappers = await self._children(storage.wrapper, key, owner)
            pods: list[Any] = [storage.unwrap(one, await self._pods_in(storage, one)) for one in wrappers]
            return pods
        return await self._children(child, key, owner)

    async def create(self, child: Object) -> None:
        namespace, made = child.metadata.namespace, _labeled(child)
        try:
            with _fenced(creating=True):
                if isinstance(child, Pod) and (storage := self._storage_of(child)) is not None:
                    # Find out now whether the pod is rejected: the Job controller would report that only in events.
                    await self.client.create(self._resources["Pod"], namespace, child, {"dryRun": "All"})
                    made = storage.wrap(child)
                answer = await self.client.create(self._resources[made.kind], namespace, made)
        except errors.AlreadyExists:
            raise AlreadyExists(child.metadata.name, ours=await self._is_ours(made)) from None
        self._remember(self._decode(type(made), answer))

    async def update(self, child: Object) -> None:
        metadata, spec = child.metadata, child.spec  # type: ignore[attr-defined]
        changes = [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": metadata.resource_version},
            {"op": "replace", "path": "/spec", "value": spec},
        ]
        with _fenced():
            await self.client.patch(self._resources[child.kind], metadata.namespace, metadata.name, changes, "json")

    async def delete(self, key: Key, uid: str) -> None:
        # The garbage collector removes an owner's children; a child has none.
        propagation: Propagation = "Background"
        if key.kind == "Pod" and (wrapper := self._wrapper_of(key, uid)) is not None:
            # The name must stay taken while the pod runs: two runs of one replica never overlap.
            key, propagation = Key(key.namespace, key.name, wrapper.__name__), "Foreground"
            # The garbage collector ignores a terminating pod, even if its deletion was interrupted.
            for pod in self.pods.by_index(uid):
                if pod.metadata.deletion_timestamp is not None:
                    await self._delete(Key(pod.metadata.namespace, pod.metadata.name, "Pod"), pod.metadata.uid)
        if await self._delete(key, uid, propagation) and key.kind not in self.kinds:
            self._writes.deleted(uid)

    async def _delete(self, key: Key, uid: str, propagation: Propagation = "Background") -> bool:
        """Delete an object; return False if it is gone, or another object now has its name."""
        resource = self._resources[key.kind]
        try:
            await self.client.delete(resource, key.namespace, key.name, uid=uid, propagation=propagation)
        except (errors.NotFound, errors.Conflict):
            return False
        return True

    async def remove_finalizer(self, key: Key, owner: OwnerObject, finalizer: str) -> None:
        metadata = owner.metadata
        kept = [one for one in metadata.finalizers if one != finalizer]
        body = {"metadata": {"resourceVersion": metadata.resource_version, "finalizers": kept}}
        with _fenced():
            await self.client.patch(self._resources[key.kind], key.namespace, key.name, body)

    async def update_status(self, key: Key, owner: Owner) -> Owner:
        kind, metadata = self.kinds[key.kind], owner.metadata
        fence = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
        names = {"name": key.name, "namespace": key.namespace}
        body = kind.resource.manifest({**names, **fence}, status=kind.encode_status(owner))
        path = kind.resource.object_path(key.namespace, key.name, "status")
        with _fenced():
            answer = await self.client.request("PUT", path, body=body)
        written = decode_owner(key.kind, answer)
        self._writes.written(written, self._stored(key))
        new: Any = owner
        updated: Owner = replace(new, metadata=replace(metadata, resource_version=written.metadata.resource_version))
        return updated

    async def lost_nodes(self) -> frozenset[str]:
        return self._lost_nodes

    def kept_as(self, child: str, key: Key) -> str:
        """Return the wrapper's kind for pods of a kind that wraps them."""
        storage = self._storages.get(key.kind)
        return storage.wrapper.__name__ if child == "Pod" and storage is not None else child

    def publish(self, key: Key, owner: OwnerObject, event: Event) -> None:
        resource = self.kinds[key.kind].resource
        self.event_log.add(Stored(resource.kind, owner.metadata, api_version=resource.api_version), event)

    async def _children(self, child: type[Child], key: Key, owner: OwnerObject) -> list[Child]:
        uid = owner.metadata.uid
        shown = self._writes.children(child, uid, self._stores[child].by_index(uid))
        if child.__name__ == self.kept_as("Pod", key):
            missing = self.kinds[key.kind].expected(owner) - {one.metadata.name for one in shown}
            if missing:
                return await self._with_missing(shown, child, missing, key, uid)
        return shown

    async def _pods_in(self, storage: CustomStorage, wrapper: Object) -> list[Pod]:
        """Return the pods of a wrapper; ask the server if pods should exist, because a watch may lag."""
        shown = self.pods.by_index(wrapper.metadata.uid)
        selector = "" if shown else storage.missing_selector(wrapper)
        return await self._list(Pod, wrapper.metadata.namespace, selector) if selector else shown

    async def _with_missing(
        self, shown: Sequence[Child], child: type[Child], missing: Set[str], key: Key, uid: str
    ) -> list[Child]:
        """Add the children that the status names and no cache shows: a watch may be dead unnoticed.

        The answer also replaces what the cache shows of the others. Otherwise a chief that ended after a worker could
        seem to have ended before it.
        """
        listed = await self._list(child, key.namespace, f"{OURS},{self.kinds[key.kind].name_label}={key.name}")
        known = {one.metadata.uid: one for one in listed if owner_uid(one) == uid}
        found = [one for one in known.values() if one.metadata.name in missing]
        for one in found:
            self._writes.created(uid, one)
        return [*(known.get(one.metadata.uid, one) for one in shown), *found]

    async def _list(self, child: type[Child], namespace: str, selector: str) -> list[Child]:
        resource = self._resources[child.__name__]
        listing = await self.client.list(resource, namespace, label_selector=selector, type=msgspec.Raw)
        return [self._decode(child, one) for one in listing.items]

    # --- what the caches report ---------------------------------------------------------------------------------

    def _owner_changed(self, before: Stored | None, after: Stored | None) -> None:
        known = after or before
        assert known is not None
        parent = owner_uid(known)
        if parent is not None:
            self._writes.seen(parent, before, after)
            if (key := self.owner_key(known)) is not None:
                self._touch(key)
        if not self._writes.seen_owner(known.key, after):
            self._touch(known.key)

    def _child_changed(self, before: Object | None, after: Object | None) -> None:
        known = after or before
        assert known is not None
        self._writes.seen(owner_uid(known) or "", before, after)
        # Find the owner by name, not uid: an owner waits for the end of the children of its predecessor.
        key = self.owner_key(known)
        if key is None or (before and after and _what_matters(before) == _what_matters(after)):
            return
        if has_just_started(before, after):
            self._touch_soon(key)
        else:
            self._touch(key)

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        if before is not None and after is not None and before.ready == after.ready:
            return
        known = after or before
        assert known is not None
        name = known.metadata.name
        lost = self._lost_nodes - {name}
        self._lost_nodes = lost | {name} if after is not None and not after.ready else lost
        for pod in self.pods.all():
            if pod.spec.get("nodeName") == name and (key := self.owner_key(pod)):
                self._touch(key)

    def _touch(self, key: Key) -> None:
        if timer := self._soon.pop(key, None):
            timer.cancel()
        self._changed[key] = None
        self._wake.set()

    def _touch_soon(self, key: Key) -> None:
        if key not in self._soon and key not in self._changed:
            self._soon[key] = asyncio.get_running_loop().call_later(START_SECONDS, self._touch, key)

    def _listed(self, kind: str, version: str) -> None:
        """Reconcile owners whose children were deleted while no watch ran."""
        self._touch_owners(self._writes.missed(kind, version))

    async def _sweep(self) -> None:
        """Reconcile owners whose children never appeared in a cache."""
        while True:
            await asyncio.sleep(self.client.durations.sweep.total_seconds())
            self._touch_owners(self._writes.expired())

    def _touch_owners(self, uids: Set[str]) -> None:
        if uids:
            for store in self.owners.values():
                for owner in store.all():
                    if owner.metadata.uid in uids:
                        self._touch(owner.key)

    def owner_key(self, child: Object | Stored) -> Key | None:
        """Return the owner of a child, or of the pod in it, by its labels, else by its owner reference."""
        namespace, labels = child.metadata.namespace, child.metadata.labels
        for name, kind in self.kinds.items():
            if kind.name_label and (owner_name := labels.get(kind.name_label)):
                return Key(namespace, owner_name, name)
        owners = (owner for owner in child.metadata.owner_references if owner.kind in self.kinds)
        return next((Key(namespace, owner.name, owner.kind) for owner in owners), None)

    # --- by type ------------------------------------------------------------------------------------------------

    async def _is_ours(self, child: Object) -> bool:
        """Ask the server whether the object with this name belongs to the same owner."""
        path = self._resources[child.kind].object_path(child.metadata.namespace, child.metadata.name)
        try:
            answer = await self.client.request("GET", path)
        except errors.NotFound:
            return True  # it is gone again; the next pass creates the child
        found = self._decode(type(child), answer)
        ours = owner_uid(found) == owner_uid(child)
        if ours:
            self._remember(found)
        return ours

    def _decode(self, child: type[Any], encoded: bytes | msgspec.Raw) -> Any:
        kind = self._by_type.get(child)
        if kind is None:
            return CHILD_TYPES[child].decode(encoded)
        return decode_readable(kind, decode_owner(kind.resource.kind, encoded))

    def _remember(self, child: Object) -> None:
        namespace, name = child.metadata.namespace, child.metadata.name
        kind = self._by_type.get(type(child))
        store = self._stores[type(child)] if kind is None else self.owners[kind.resource.kind]
        shown = store.get(namespace, name)
        if shown is None or shown.metadata.uid != child.metadata.uid:
            self._writes.created(owner_uid(child) or "", child)

    def _stored(self, key: Key) -> Stored | None:
        return self.owners[key.kind].get(key.namespace, key.name)

    def _storage_of(self, child: Object) -> CustomStorage | None:
        return next((found for one in child.metadata.owner_references if (found := self._storages.get(one.kind))), None)

    def _wrapper_of(self, key: Key, uid: str) -> type[Any] | None:
        for storage in self._storages.values():
            found = self._stores[storage.wrapper].get(key.namespace, key.name)
            if found is not None and found.metadata.uid == uid:
                return storage.wrapper
        return None


def owner_uid(child: Object | Stored) -> str | None:
    return next((owner.uid for owner in child.metadata.owner_references if owner.controller), None)


def _labeled(child: Any) -> Any:
    """Return a child with the label that its cache selects."""
    metadata = child.metadata
    if isinstance(child, PodGroup) or OPERATOR_NAME_LABEL in metadata.labels:
        return child
    return replace(child, metadata=replace(metadata, labels={**metadata.labels, OPERATOR_NAME_LABEL: OPERATOR_NAME}))


def has_just_started(before: Object | None, after: Object | None) -> bool:
    return (
        isinstance(before, Pod)
        and isinstance(after, Pod)
        and (before.status.phase, after.status.phase) == ("Pending", "Running")
        and after.metadata.deletion_timestamp is None
    )


def _what_matters(child: Object) -> tuple[object, ...]:
    """Return the part of a child that a decision reads: a pod's labels and versions change without its state."""
    spec = child.spec if isinstance(child, PodGroup) else None
    return child.metadata.uid, child.metadata.deletion_timestamp, getattr(child, "status", None), spec


@contextmanager
def _fenced(*, creating: bool = False) -> Iterator[None]:
    """Translate the API server's answers to a write into the errors of the loop."""
    try:
        yield
    except errors.ApiError as error:
        # A creation conflicts when many requests use one quota at once. NotFound means that the object was deleted; for
        # a creation, it means that the namespace does not exist.
        if isinstance(error, errors.Conflict) or (isinstance(error, errors.NotFound) and not creating):
            raise Conflict(str(error)) from None
        if reason := rejection_reason(error):
            raise Rejected(reason, error.message) from None
        raise


def rejection_reason(error: errors.ApiError) -> str:
    """Return why the API server rejects a child; empty if the answer is not about the child."""
    if isinstance(error, errors.Invalid) or error.code == TOO_LARGE:
        return "Invalid"
    if isinstance(error, errors.NotFound):
        return "NamespaceNotFound"
    if "denied the request" in error.message:
        return "Denied"  # an admission webhook may choose any code for its rejection
    if not isinstance(error, errors.Forbidden):
        return "Invalid" if error.code == BAD_REQUEST else ""
    if any(cause.reason == "NamespaceTerminating" for cause in error.details.causes or ()):
        return "NamespaceTerminating"
    if "exceeded quota" in error.message:
        return "QuotaExceeded"
    if re.search(r" cannot (create|update|patch) resource ", error.message):
        return "Forbidden"  # the operator lacks a permission, which may be granted while the job waits
    return "Denied"
