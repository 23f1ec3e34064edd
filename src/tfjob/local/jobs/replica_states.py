"""How every replica of a run stands, from its pod or from what its pods left on disk."""

from __future__ import annotations

from collections.abc import Sequence

from tfjob.api.names import child_name
from tfjob.api.objects import Pod, PodStatus
from tfjob.jobs.backend import Replica
from tfjob.jobs.replicas import resources_of
from tfjob.local.run.pod_folder import pod_folder
from tfjob.local.sandbox.exec import main_process
from tfjob.local.state.pod_history import PodRecord, history
from tfjob.local.state.store import Run, Store
from tfjob.local.warm.start import how
from tfjob.plan.facts.tasks import desired, main_container, restarts_in_place, task_of
from tfjob.plan.policy.in_place import between_tries
from tfjob.plan.policy.suspension import STOPPED


def replicas(store: Store, run: Run) -> list[Replica]:
    """Every replica that the job asks for, with its pod's state if it has one."""
    pods = {task_of(pod): pod for pod in store.children(Pod, run.job.metadata.uid)}
    past = history(run.folder)
    found = []
    for task in desired(run.job):
        pod = pods.get(task)
        left = past.get(child_name(run.job, task.type, task.index), [])
        last = _newest(run, pod, left)
        container = main_container(Pod(status=last)) if last else None
        ended = container.state.terminated if container else None
        found.append(
            Replica(
                name=task.name,
                phase=last.phase or "Pending" if last else "-",
                shown=_shown(last, left),
                attempts=sum(1 + restarts_in_place(Pod(status=one.status or PodStatus())) for one in left),
                restarts=run.job.status.task_restarts.get(task.name, 0),
                exit_code=ended.exit_code if ended else None,
                address=pod.status.pod_ip if pod else "",
                resources=resources_of(pod) if pod else {},
                start=how(pod) if pod else "",
                pid=main_process(left[-1].folder, container.name) if left and container and not ended else None,
            )
        )
    return found


def _shown(last: PodStatus | None, left: Sequence[PodRecord]) -> str:
    """What people should read instead of the phase: `Failed` is no word for what we ended ourselves."""
    if last and last.phase == "Failed" and left and left[-1].stopped:
        return STOPPED
    return between_tries(Pod(status=last)) if last else ""


def _newest(run: Run, pod: Pod | None, left: Sequence[PodRecord]) -> PodStatus | None:
    """How a replica stands: as its supervisor wrote it, which is sooner than the driver reads it."""
    written = left[-1].status if left else None
    if pod is None:
        return written
    over = pod.status.phase in ("Succeeded", "Failed")
    return pod.status if over or not written or left[-1].folder != pod_folder(run.folder, pod) else written
