"""`tfjob completion`, and what a TAB offers for the arguments of a command line: jobs, their replicas, files.

Nothing here may fail, change anything, or start anything: a name that cannot be found is not offered.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from tfjob.cli.context import On, home, open_cluster_backend, state

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager

    from click.shell_completion import CompletionItem

    from tfjob.kube.jobs.backend import SyncKubeBackend


PATIENCE_SECONDS = 2.0
LATEST = "@latest"  # that of controller.finding, whose import a TAB would feel


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what makes a shell complete commands, options and job names.

    What it prints never changes: it asks this tool at each TAB. bash needs version 4.4 or later.
    """
    from click.shell_completion import get_completion_class

    root = context.find_root()
    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(root.command, {}, "tfjob", "_TFJOB_COMPLETE").source())


class JobName(click.types.StringParamType):
    """The name of a job, in the place that the rest of the command line names."""

    name = "job"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Those that begin like it; `@latest` for who asks for it."""
        known: set[str] = set()
        with suppress(Exception):  # whatever it is, a TAB is no place to tell it
            known = _jobs(ctx)
        known -= set(ctx.params.get(param.name or "") or ())
        return _items([*sorted(known), *([LATEST] if incomplete else [])], incomplete)


class ReplicaName(click.types.StringParamType):
    """The name of a replica of the job that stands before it."""

    name = "replica"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Those that the job asks for."""
        known: list[str] = []
        with suppress(Exception):
            known = _replicas(ctx)
        return _items(known, incomplete)


class FileName(click.types.StringParamType):
    """A file, which the shell itself completes."""

    name = "file"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Leaves it to the shell."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="file")]


JOB, REPLICA, FILE = JobName(), ReplicaName(), FileName()


def _items(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _jobs(ctx: click.Context) -> set[str]:
    on, namespace = _place(ctx)
    if on.cluster:
        with _cluster(on, namespace) as there:
            return {record.name for record in there.jobs()}
    from tfjob.local.state.job_names import job_names

    return set(job_names(home().database, namespace or "default"))


def _replicas(ctx: click.Context) -> list[str]:
    from tfjob.plan.facts.tasks import desired

    on, namespace = _place(ctx)
    job: Any = ctx.params.get("job")
    if on.cluster:
        with _cluster(on, namespace) as there:
            return [task.name for task in desired(there.find(job).job)]
    from tfjob.local.jobs.runs import find_run, job_of

    with state(write=False) as (_, store):
        return [task.name for task in desired(job_of(find_run(store, job, namespace or "default")))]


def _cluster(on: On, namespace: str) -> AbstractContextManager[SyncKubeBackend]:
    """A cluster, for as long as somebody waits for a TAB; a program that gets credentials has nobody to ask."""
    import sys

    sys.stdin = None
    return open_cluster_backend(on, namespace, PATIENCE_SECONDS)


def _place(ctx: click.Context) -> tuple[On, str]:
    return ctx.params.get("on") or On(), ctx.params.get("namespace") or ""
