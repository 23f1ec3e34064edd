"""What one kind of owner brings to the loop: how it is stored, what it owns, and the decision about it.

    class ServerKind:
        resource, owner_type, children, name_label = SERVERS, Server, (Pod,), ""

        def plan(self, owner: Server, observed: Observation, now: datetime) -> Plan[ServerStatus]:
            pods = observed.of(Pod)
            ...
            return Plan(status, [Create(pod)], [Event("Started", "the server runs")])

A kind is pure: no I/O, no clock, no randomness. A cluster reads and writes its objects, and the loop calls it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import msgspec

from tfjob.api.objects import Object, ObjectMeta
from tfjob.api.problems import Problem
from tfjob.api.resources import Resource
from tfjob.controller.actions import Action, Event

STOPPED, INTERRUPTED = "Stopped", "Interrupted"
"""Why an owner is suspended: a user stopped it, or what kept it alive is gone."""
SUSPEND_REASON = "tfjob/suspend-reason"
"""Annotation: one of these reasons, where a command suspended the owner."""


@dataclass(frozen=True, order=True)
class Key:
    """The identity of an object, without what happened to it: the loop reads the object itself."""

    namespace: str
    name: str
    kind: str


class Stored(msgspec.Struct, frozen=True):
    """An owner whose spec and status stay encoded: most owners of a cluster are finished and never read again."""

    kind: str
    metadata: ObjectMeta
    spec: bytes = b"{}"
    status: bytes = b"{}"
    api_version: str = ""

    @property
    def key(self) -> Key:
        return Key(self.metadata.namespace, self.metadata.name, self.kind)


class Status(Protocol):
    """What the status of every kind says in a word, a reason in CamelCase and a sentence."""

    @property
    def state(self) -> str: ...

    @property
    def reason(self) -> str: ...

    @property
    def message(self) -> str: ...


class OwnerObject(Object, Protocol):
    """An object with a status that the loop writes."""

    @property
    def status(self) -> Status: ...


Owner = TypeVar("Owner", bound=OwnerObject)
StatusType = TypeVar("StatusType", bound=Status, covariant=True)
Child = TypeVar("Child", bound=Object)


class Invalid(Exception):
    """The stored object is not valid: what can be read of it, and what is wrong with it."""

    def __init__(self, owner: OwnerObject, problems: Sequence[Problem]) -> None:
        super().__init__(owner.metadata.name)
        self.owner = owner
        self.problems = problems


@dataclass(frozen=True)
class Rejection:
    """A child that the cluster refuses to create: why, and since when."""

    reason: str
    message: str
    since: datetime


@dataclass(frozen=True)
class Repetition:
    """How often the deletion of a child was repeated, and when it was last."""

    count: int
    last: datetime


@dataclass(frozen=True)
class Observation:
    """The children of an owner as the cluster shows them now.

    Rejections go by the kind and name of the child, repeated deletions by its uid.
    """

    children: Mapping[type[Any], Sequence[Any]] = field(default_factory=dict)
    rejections: Mapping[tuple[str, str], Rejection] = field(default_factory=dict)
    repeated_deletions: Mapping[str, Repetition] = field(default_factory=dict)
    lost_nodes: frozenset[str] = frozenset()

    def of(self, child: type[Child]) -> list[Child]:
        return list(self.children.get(child, ()))


@dataclass(frozen=True)
class Plan(Generic[StatusType]):
    """The outcome of one pass; `again_at` is when time alone will change it."""

    status: StatusType
    actions: Sequence[Action] = ()
    events: Sequence[Event] = ()
    again_at: datetime | None = None


class Kind(Protocol[Owner]):
    """One kind of owner."""

    resource: Resource
    """Where an API server keeps it; `resource.kind` is also in keys, events and metrics."""
    owner_type: type[Owner]
    """Its Python type, by which another kind can own it."""
    name_label: str
    """The label of its children that holds the owner's name; empty if only their owner reference names it."""

    @property
    def children(self) -> tuple[type[Any], ...]:
        """What it owns: read before each plan, and a change of one wakes the owner."""

    def decode(self, stored: Stored) -> Owner:
        """Return the owner with its defaults. Raises Invalid."""

    def plan(self, owner: Owner, observed: Observation, now: datetime) -> Plan[Any]:
        """Decide what one pass writes and does."""

    def reject(self, owner: Owner, observed: Observation, problems: Sequence[Problem], now: datetime) -> Plan[Any]:
        """Decide what follows for an owner that is not valid."""

    def is_finished(self, owner: Owner) -> bool:
        """Return whether only cleaning up is left, which yields to owners that still work."""

    def encode_status(self, owner: Owner) -> Any:
        """Return what the status subresource holds."""

    def expected(self, owner: Owner) -> Set[str]:
        """Return the names of pods that the status remembers; the server is asked for those that no cache shows."""


@runtime_checkable
class Suspendable(Protocol):
    """A kind whose owners can be suspended and resumed; of other kinds, an owner that must stop is deleted."""

    def suspended(self, owner: Any, reason: str) -> Any:
        """Return the owner with its spec edited so that its pods end; one that is suspended keeps its reason."""
