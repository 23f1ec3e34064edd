"""`tfjob exec`: a command inside a replica, with its files, names and environment."""

from __future__ import annotations

import sys

import click

from tfjob.cli import outcome
from tfjob.cli.context import find_run, namespace_option, state


class Exec(click.Command):
    """A command whose own command line may hold options: they belong after `--`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Adds how to write it to the error for an option that is not ours."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if "--" in args:
                raise
            raise click.UsageError(
                f"{error.message} Put -- before the command: tfjob exec JOB REPLICA -- COMMAND...", ctx
            ) from None


@click.command("exec", cls=Exec)
@click.argument("job")
@click.argument("replica")
@click.option("-c", "--container", default="", metavar="NAME", help="Which container; the main one by default.")
@namespace_option
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
def exec_(job: str, replica: str, container: str, namespace: str, command: tuple[str, ...]) -> int:
    """Run a command inside a replica, for example: tfjob exec mnist worker-0 -- sh.

    It sees the replica's files, names and environment. The exit code is the command's.
    """
    from tfjob.api.objects import Pod
    from tfjob.api.types import CONTAINER_NAME
    from tfjob.local.pod_exec import exec_in
    from tfjob.local.pod_folder import pod_folder
    from tfjob.plan.tasks import task_of

    with state(write=False) as (home, store):
        run = find_run(home, store, job, namespace)
        pods = {task.name: pod for pod in store.children(Pod, run.job.metadata.uid) if (task := task_of(pod))}
    replica, _, named = replica.partition("/")
    pod = pods.get(replica)
    if pod is None or pod.status.phase != "Running":
        running = ", ".join(sorted(name for name, child in pods.items() if child.status.phase == "Running"))
        raise outcome.Stop(
            outcome.NOT_FOUND, f"{run.id} has no running replica {replica}", f"Running: {running or 'none'}."
        )
    names = [entry["name"] for entry in pod.spec["containers"]]
    chosen = container or named or (CONTAINER_NAME if CONTAINER_NAME in names else names[0])
    if chosen not in names:
        raise outcome.Stop(outcome.NOT_FOUND, f"{replica} has no container {chosen}", f"It has {', '.join(names)}.")
    sys.stdout.flush()
    terminal = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    return exec_in(pod_folder(run.folder, pod), chosen, list(command), tty=terminal)
