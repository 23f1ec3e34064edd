"""Find jobs by what a user typed: a name, an id, a unique prefix, `@latest`, or a shell pattern of names."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Protocol, TypeVar

from tfjob.errors import UserError
from tfjob.jobs.backend import NotFound

LATEST = "@latest"


class NameInUse(UserError):
    """A new job has the name of an existing job; `can_change` if that is a Deployment, which `submit` can update."""

    def __init__(
        self, name: str, namespace: str, state: str, since: datetime | None, *, can_change: bool = False
    ) -> None:
        self.name = name
        self.namespace = namespace
        self.can_change = can_change
        when = f" (since {since:%Y-%m-%d %H:%M:%S} UTC)" if since else ""
        super().__init__(f"{'Deployment' if can_change else 'job'} '{name}' exists and is {state}{when}")


class Named(Protocol):
    """The names of a job."""

    @property
    def id(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def current(self) -> bool: ...


Job = TypeVar("Job", bound=Named)


def find(jobs: Sequence[Job], name: str) -> Job | None:
    """Find a job among those of a namespace, the newest last. Raises NotFound if the name is ambiguous."""
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
        raise NotFound(f"'{name}' is ambiguous: it could be {', '.join(sorted(starting))}", "Type more of the name.")
    return None


def is_pattern(name: str) -> bool:
    """Return whether a name is a shell pattern: no name of a job contains these characters."""
    return any(character in name for character in "*?[")


def matching(jobs: Sequence[Job], pattern: str) -> list[Job]:
    return [job for job in jobs if fnmatchcase(job.name, pattern)]


def _current(jobs: Sequence[Job]) -> Job:
    return next((job for job in jobs if job.current), jobs[-1])


def not_found(
    jobs: Sequence[Named], name: str, namespace: str, elsewhere: Collection[str], options: str = ""
) -> NotFound:
    message = f"no job '{name}' in namespace '{namespace}'" if name else "the job name is empty"
    if name == LATEST:
        message = f"there are no jobs in namespace '{namespace}'"
    others = sorted(set(elsewhere) - {namespace})
    if others:
        return NotFound(message, f"Namespace '{others[0]}' has one: add -n {others[0]}.")
    known = {job.name for job in jobs}
    if near := difflib.get_close_matches(name, known, n=1):
        return NotFound(message, f"Did you mean {near[0]}?")
    if known:
        return NotFound(message, f"To list jobs: tfjob ps -a{options}")
    return NotFound(message, f"To start one: tfjob run FILE{options}")
