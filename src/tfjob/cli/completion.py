"""`tfjob completion`, and the completion of arguments: jobs, replicas and files.

Completion must not fail, change state or start processes. If names cannot be looked up, none are offered.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from tfjob.errors import UserError
from tfjob.launch import target
from tfjob.launch.target import On

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from click.shell_completion import CompletionItem

LATEST = "@latest"  # the same as in jobs.find, which is slow to import


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script that completes commands, options and job names in a shell.

    The script calls tfjob at each TAB, so it does not need an update after an upgrade. bash must be 4.4 or later.
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(context.find_root().command, {}, "tfjob", "_TFJOB_COMPLETE").source())


class Known(click.types.StringParamType):
    """An argument whose completions `find` looks up, on the target that the command line names."""

    def __init__(self, name: str, find: Callable[[click.Context], Iterable[str]]) -> None:
        self.name = name
        self._find = find

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        known: list[str] = []
        with suppress(Exception):  # a TAB is not the place to report an error
            given = ctx.params.get(param.name or "") or ()
            known = [name for name in self._find(ctx) if name not in given]
        if self.name == "job" and incomplete:
            known.append(LATEST)
        return [CompletionItem(name) for name in known if name.startswith(incomplete)]


def _jobs(ctx: click.Context) -> list[str]:
    on, namespace = _place(ctx)
    return sorted(target.job_names(on, namespace, _patience(on)))


def _jobs_or_replicas(ctx: click.Context) -> list[str]:
    """Return the replicas of the first job, if there is one, and the jobs."""
    given: Any = ctx.params.get("jobs")
    with suppress(UserError):  # a pattern
        return [*_replicas_of(ctx, given[0]), *_jobs(ctx)] if given else _jobs(ctx)
    return _jobs(ctx)


def _replicas(ctx: click.Context) -> list[str]:
    job: Any = ctx.params.get("job")
    return _replicas_of(ctx, job)


def _replicas_of(ctx: click.Context, job: str) -> list[str]:
    from tfjob.jobs.replicas import replica_names

    on, namespace = _place(ctx)
    with target.open_backend(on, namespace, write=False, seconds=_patience(on)) as there:
        return replica_names(there.find(job).object)


def _patience(on: On) -> float | None:
    if not on.cluster:
        return None  # loading the durations takes longer than reading the names of jobs
    from tfjob.durations import durations_from

    return durations_from(os.environ).completion.total_seconds()


def _place(ctx: click.Context) -> tuple[On, str]:
    sys.stdin = None  # an exec credential plugin must not prompt
    return ctx.params.get("on") or On(), ctx.params.get("namespace") or ""


JOB, REPLICA, FILE = Known("job", _jobs), Known("replica", _replicas), click.Path(readable=False)
JOB_OR_REPLICA = Known("job", _jobs_or_replicas)
