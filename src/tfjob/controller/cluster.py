"""The door to the world: what the controller needs of a cluster; a laptop and Kubernetes both offer it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from tfjob.api.objects import AnyChild, PodGroup
from tfjob.api.problems import Problem
from tfjob.api.types import KIND, TFJob
from tfjob.plan.actions import Event

Child = TypeVar("Child", bound=AnyChild)


@dataclass(frozen=True, order=True)
class Key:
    """Which job to look at; never what happened to it: the controller looks for itself."""

    namespace: str
    name: str
    kind: str = KIND
    """`TfJob` for those of tensorflow.org: a cluster may have one of each with the same name."""


class Conflict(Exception):
    """The object changed since it was read: read again and decide again."""


class InvalidJob(Exception):
    """The stored object is no TFJob: its metadata and status as a job without a spec, and what is wrong with it."""

    def __init__(self, job: TFJob, problems: Sequence[Problem]) -> None:
        super().__init__(job.metadata.name)
        self.job = job
        self.problems = problems


class AlreadyExists(Exception):
    """An object of that name is there; `ours` says whether it belongs to the same job."""

    def __init__(self, name: str, *, ours: bool) -> None:
        super().__init__(name)
        self.ours = ours


class Refused(Exception):
    """The cluster will not take an object as it is: a reason in CamelCase and a sentence."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class Cluster(Protocol):
    """What the controller needs of a cluster. Every write is fenced: a stale reader cannot do harm."""

    def changes(self) -> AsyncIterator[Key]:
        """Keys of jobs that changed, or whose children did; first every job that exists."""

    async def job(self, key: Key) -> TFJob | None:
        """The job, defaulted, or None when there is none. Raises InvalidJob."""

    async def complete(self, job: TFJob) -> bool:
        """Writes into the stored spec of a TfJob what its operator wrote there; whether anything was missing.

        Raises Conflict if the job changed since it was read.
        """

    async def children(self, kind: type[Child], job: TFJob) -> list[Child]:
        """The children of a job of one kind."""

    async def create(self, child: AnyChild) -> None:
        """Makes a child. Raises AlreadyExists or Refused."""

    async def update(self, child: PodGroup) -> None:
        """Writes the spec of a child that was read. Raises Conflict if it changed since or is gone."""

    async def delete(self, kind: str, key: Key, uid: str) -> None:
        """Removes the object of that name if it still has that uid; that it is gone already is fine."""

    async def update_status(self, job: TFJob) -> TFJob:
        """Writes the status of the job that was read. Raises Conflict if it changed since."""

    async def lost_nodes(self) -> frozenset[str]:
        """Machines that do not answer."""

    def kept_as(self, kind: str, job: TFJob) -> str:
        """The kind of object that people find for a child of a job; most are kept as what they are."""

    def publish(self, job: TFJob, news: Event) -> None:
        """Tells people what happened; never fails and never waits."""
