"""`tfjob exec`: a command inside a replica, with its files, names and environment."""

from __future__ import annotations

import sys

import click

from tfjob.cli import outcome
from tfjob.cli.context import find_run, namespace_option, state


@click.command("exec", context_settings={"ignore_unknown_options": True})
@click.argument("job")
@click.argument("replica")
@click.option("-c", "--container", default="", help="Which container; the main one by default.")
@namespace_option
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
def exec_(job: str, replica: str, container: str, namespace: str, command: tuple[str, ...]) -> int:
    """Run a command inside a replica, for example: tfjob exec mnist worker-0 -- sh."""
    from tfjob.api.objects import Pod
    from tfjob.local import pod_exec
    from tfjob.local.kubelet import pod_folder
    from tfjob.plan.tasks import task_of

    with state(write=False) as (home, store):
        run = find_run(home, store, job, namespace)
        pods = {task.name: pod for pod in store.children(Pod, run.job.metadata.uid) if (task := task_of(pod))}
    pod = pods.get(replica)
    if pod is None or pod.status.phase != "Running":
        running = ", ".join(sorted(name for name, child in pods.items() if child.status.phase == "Running"))
        raise outcome.Stop(
            outcome.NOT_FOUND, f"{run.id} has no running replica {replica}; running: {running or 'none'}"
        )
    names = [entry["name"] for entry in pod.spec["containers"]]
    chosen = container or ("tensorflow" if "tensorflow" in names else names[0])
    if chosen not in names:
        raise outcome.Stop(outcome.NOT_FOUND, f"{replica} has no container {chosen}; there are: {', '.join(names)}")
    folder = str(pod_folder(run.folder, pod))
    return pod_exec.exec_in(folder, chosen, list(command), tty=sys.stdin.isatty())
