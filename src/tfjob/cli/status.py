"""`tfjob status`: one job in full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tfjob.cli.context import find_run, namespace_option, output_option, state

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfjob.api.objects import Pod, PodStatus
    from tfjob.local.pod_history import PodRecord
    from tfjob.local.store import Run, Store


@click.command()
@click.argument("job")
@namespace_option
@output_option
def status(job: str, namespace: str, output: str) -> None:
    """Show one job: its state and why, its replicas, where its files are."""
    import msgspec

    from tfjob.cli.shapes import print_json, run_shape

    with state(write=False) as (home, store):
        run = find_run(home, store, job, namespace)
        replicas = replica_shapes(store, run)
    if output == "json":
        content = {**run_shape(run), "replicas": replicas, "status": msgspec.to_builtins(run.job.status)}
        print_json("JobStatus", content)
        return
    click.echo(_text(run, replicas))


def replica_shapes(store: Store, run: Run) -> list[dict[str, Any]]:
    """Every replica that the job asks for, with its pod's state if it has one."""
    from tfjob.api.names import child_name
    from tfjob.api.objects import Pod
    from tfjob.local.pod_history import history
    from tfjob.plan.tasks import desired, main_container, task_of

    pods = {task_of(pod): pod for pod in store.children(Pod, run.job.metadata.uid)}
    past = history(run.folder)
    shapes = []
    for task in desired(run.job):
        pod = pods.get(task)
        left = past.get(child_name(run.job, task.type, task.index), [])
        last = _newest(run, pod, left)
        container = main_container(Pod(status=last)) if last else None
        ended = container.state.terminated if container else None
        shapes.append(
            {
                "name": task.name,
                "phase": last.phase or "Pending" if last else "-",
                "attempts": len(left),
                "restarts": run.job.status.task_restarts.get(task.name, 0),
                "exitCode": ended.exit_code if ended else None,
                "address": pod.status.pod_ip if pod else "",
                "resources": _resources(pod) if pod else {},
            }
        )
    return shapes


def _newest(run: Run, pod: Pod | None, left: Sequence[PodRecord]) -> PodStatus | None:
    """How a replica stands: as its supervisor wrote it, which is sooner than the driver reads it."""
    from tfjob.local.pod_folder import pod_folder

    written = left[-1].status if left else None
    if pod is None:
        return written
    over = pod.status.phase in ("Succeeded", "Failed")
    return pod.status if over or not written or left[-1].folder != pod_folder(run.folder, pod) else written


def _resources(pod: Any) -> dict[str, Any]:
    """Requests and limits of the main container, as the manifest has them."""
    containers = pod.spec.get("containers") or [{}]
    resources: dict[str, Any] = containers[0].get("resources") or {}
    return resources


def _text(run: Run, replicas: list[dict[str, Any]]) -> str:
    from tfjob.cli.report import verdict
    from tfjob.cli.shapes import shown_state
    from tfjob.cli.tables import age, clock, table, took

    status = run.job.status
    name, reason = shown_state(run)
    because = f" ({reason})" if reason not in ("", name) else ""
    message = f": {status.message}" if status.message and not status.failure else ""
    since = status.start_time or run.created
    ago = f"took {took(since, status.completion_time)}" if status.completion_time else f"{age(since)} ago"
    lines = [
        f"{click.style(run.id, bold=True)}  {name}{because}{message}",
        f"  started    {clock(since)} UTC, {ago}",
        f"  ready      {status.ready or '-'}   restarts {status.restarts}   attempt {status.attempt}",
        f"  files      {run.folder}",
    ]
    if status.failure:
        lines.append(f"  why        {verdict(status.failure, status.reason)}")
    elif status.last_restart:
        cause = status.last_restart.cause
        lines.append(f"  restarted  {clock(status.last_restart.time)} UTC, because {cause.message}")
    rows = [
        [
            f"  {shape['name']}",
            shape["phase"],
            str(shape["attempts"]),
            "-" if shape["exitCode"] is None else str(shape["exitCode"]),
            shape["address"] or "-",
            _asked(shape["resources"]),
        ]
        for shape in replicas
    ]
    return "\n".join(
        [*lines, "", table(["  REPLICA", "PHASE", "ATTEMPTS", "EXIT", "ADDRESS", "REQUESTS/LIMITS"], rows)]
    )


def _asked(resources: dict[str, Any]) -> str:
    def words(part: str) -> str:
        return ",".join(f"{name}={value}" for name, value in (resources.get(part) or {}).items()) or "-"

    return f"{words('requests')}/{words('limits')}" if resources else "-"
