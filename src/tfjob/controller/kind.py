"""What a kind of owner defines for the loop: how it is stored, what it owns, and the decision about it.

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
"""Why an owner is suspended: a user stopped it, or the process that ran it is gone."""
SUSPEND_REASON = "tfjob/suspend-reason"
"""Annotation: one of these reasons, if a command suspended the owner."""


@dataclass(frozen=True, order=True)
class Key:
    """The identity of an object. It does not say what changed: the loop reads the object."""

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
    """The part of a status that every kind has: a word, a reason in CamelCase and a sentence."""

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
    """The stored object is not valid: `owner` is what can be read of it, `problems` is what is wrong."""

    def __init__(self, owner: OwnerObject, problems: Sequence[Problem]) -> None:
        super().__init__(owner.metadata.name)
        self.owner = owner
        self.problems = problems


@dataclass(frozen=True)
class Rejection:
    """Why the cluster refuses to create a child, and since when."""

    reason: str
    message: str
    since: datetime


@dataclass(frozen=True)
class Repetition:
    """How often the deletion of a child was repeated, and when it was last repeated."""

    count: int
    last: datetime


@dataclass(frozen=True)
class Observation:
    """The children of an owner as the cluster shows them now.

    Rejections are keyed by the kind and name of the child, repeated deletions by its uid.
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
    """The API resource; keys, events and metrics also use `resource.kind`."""
    owner_type: type[Owner]
    """The Python type; another kind that owns such objects names it in `children`."""
    name_label: str
    """The label of its children that holds the owner's name; empty if only their owner reference names it."""

    @property
    def children(self) -> tuple[type[Any], ...]:
        """The types of its children: they are read before each plan, and a change of one wakes the owner."""

    def decode(self, stored: Stored) -> Owner:
        """Return the owner with its defaults. Raises Invalid."""

    def plan(self, owner: Owner, observed: Observation, now: datetime) -> Plan[Any]:
        """Decide what one pass writes and does."""

    def reject(self, owner: Owner, observed: Observation, problems: Sequence[Problem], now: datetime) -> Plan[Any]:
        """Decide what follows for an owner that is not valid."""

    def is_finished(self, owner: Owner) -> bool:
        """Return whether only the clean-up is left; it has a lower priority than owners that still run."""

    def encode_status(self, owner: Owner) -> Any:
        """Return what the status subresource holds."""

    def expected(self, owner: Owner) -> Set[str]:
        """Return the names of pods that the status records; those that no cache has are read from the server."""


def decode_readable(kind: Kind[Any], stored: Stored) -> Any:
    """Return an owner; if it is not valid, as much of it as can be read."""
    try:
        return kind.decode(stored)
    except Invalid as error:
        return error.owner


@runtime_checkable
class Suspendable(Protocol):
    """A kind whose owners can be suspended and resumed. To stop an owner of another kind, it is deleted."""

    def suspended(self, owner: Any, reason: str) -> Any:
        """Return the owner with a spec that ends its pods; an owner that is already suspended keeps its reason."""
