"""Finding a job by what a person wrote: its name, an id, a unique beginning, or `@latest`."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol, TypeVar

from tfjob.errors import UserError
from tfjob.jobs.backend import NotFound

LATEST = "@latest"


class NameInUse(UserError):
    """A new job has the name of a job that exists; `can_change` says that it is a server that `submit` updates."""

    def __init__(
        self, name: str, namespace: str, state: str, since: datetime | None, *, can_change: bool = False
    ) -> None:
        self.name = name
        self.namespace = namespace
        self.can_change = can_change
        when = f" (since {since:%Y-%m-%d %H:%M:%S} UTC)" if since else ""
        super().__init__(f"{'Deployment' if can_change else 'job'} {name} exists and is {state}{when}")


class Named(Protocol):
    """What names a job."""

    @property
    def id(self) -> str:
        """The name that stays with it."""

    @property
    def name(self) -> str:
        """The name that it may share with those before it."""

    @property
    def current(self) -> bool:
        """Whether the name means it now."""


Job = TypeVar("Job", bound=Named)


def find(jobs: Sequence[Job], name: str) -> Job | None:
    """The job that `name` means among those of a namespace, the newest last. Raises NotFound if it means several."""
    if name == LATEST and jobs:
        return jobs[-1]
    exact = [job for job in jobs if job.id == name] or [job for job in jobs if job.name == name]
    if exact:
        return _current(exact)
    starting: dict[str, list[Job]] = {}
    for job in jobs if name else ():
        if job.name.startswith(name):
            starting.setdefault(job.name, []).append(job)
    if len(starting) == 1:
        return _current(next(iter(starting.values())))
    if starting:
        raise NotFound(f"{name} could be {', '.join(sorted(starting))}", "Write more of it.")
    return None


def _current(jobs: Sequence[Job]) -> Job:
    return next((job for job in jobs if job.current), jobs[-1])


def not_found(
    jobs: Sequence[Named], name: str, namespace: str, elsewhere: Collection[str], options: str = ""
) -> NotFound:
    """The error for a name that none of `jobs` has.

    `elsewhere` are the namespaces that have a job of that name; commands in hints need `options`.
    """
    message = f"there is no job{'' if name == LATEST else ' ' + name} in namespace {namespace}"
    others = sorted(set(elsewhere) - {namespace})
    if others:
        return NotFound(message, f"There is one in namespace {others[0]}: add -n {others[0]}.")
    known = {job.name for job in jobs}
    if near := difflib.get_close_matches(name, known, n=1):
        return NotFound(message, f"Did you mean {near[0]}?")
    if known:
        return NotFound(message, f"`tfjob ps -a{options}` lists what there is.")
    return NotFound(message, f"Start one with: tfjob run FILE{options}")
