"""`tfjob completion`, and the completion of arguments: jobs, replicas, model servers and files.

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


class JobGroup(click.Group):
    """A group whose first word is a subcommand, or else the job that the subcommand `of_job` takes."""

    def __init__(self, *args: Any, of_job: str = "", **options: Any) -> None:
        super().__init__(*args, **options)
        self._of_job = of_job

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = [self._of_job, *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        job = next(one for one in self.commands[self._of_job].params if isinstance(one, click.Argument))
        return [*super().shell_complete(ctx, incomplete), *job.shell_complete(ctx, incomplete)]


def _jobs(ctx: click.Context) -> list[str]:
    on, namespace = _place(ctx)
    return sorted(target.job_names(on, namespace, _patience(on)))


def _jobs_or_replicas(ctx: click.Context) -> list[str]:
    """Return the replicas of the first job, if there is one, and the jobs."""
    given: Any = ctx.params.get("jobs")
    with suppress(UserError):  # a pattern
        return [*_replicas_of(ctx, given[0]), *_jobs(ctx)] if given else _jobs(ctx)
    return _jobs(ctx)


def _servers(ctx: click.Context) -> list[str]:
    return [server for server, _ in _models_by_server(ctx)]


def _served_models(ctx: click.Context) -> list[str]:
    """Return the models that are served, as `tfjob predict` takes them."""
    from tfjob.serve.deploy import name_for

    served = _models_by_server(ctx)
    return [model if name_for(model) == server else f"{server}/{model}" for server, model in served]


def _models_by_server(ctx: click.Context) -> list[tuple[str, str]]:
    from tfjob.serve import rollouts

    on, namespace = _place(ctx)
    if on.cluster:
        with target.open_cluster(on, namespace, _patience(on)) as there:
            found = rollouts.cluster_servers(there)
    else:
        with target.open_backend(on, namespace, write=False) as machine:
            found = rollouts.local_servers(machine)
    return [(one.name, one.model) for one in found]


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
SERVER, SERVED_MODEL = Known("server", _servers), Known("model", _served_models)
JOB_OR_REPLICA = Known("job", _jobs_or_replicas)
