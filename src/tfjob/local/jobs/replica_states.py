"""The state of every replica of a run, from its pod or from the files of its pods."""

from __future__ import annotations

from collections.abc import Sequence

from tfjob.api.names import child_name
from tfjob.api.objects import Deployment, Pod, PodStatus
from tfjob.jobs.backend import Replica
from tfjob.jobs.replicas import Trace
from tfjob.jobs.replicas import replica as replica_of
from tfjob.jobs.replicas import replicas as replicas_of
from tfjob.local.jobs.runs import owner_of
from tfjob.local.run.pod_folder import pod_folder
from tfjob.local.sandbox.exec import main_process
from tfjob.local.state.store import Run, Store
from tfjob.local.warm.policy import NOT_SEEN
from tfjob.local.warm.start import HOW
from tfjob.plan.facts.tasks import desired, main_container, restarts_in_place, task_of
from tfjob.records.pods import PodRecord, history


def replicas(store: Store, run: Run) -> list[Replica]:
    job = owner_of(run)
    if isinstance(job, Deployment):
        return _servers(store, run)
    pods = {task: pod for pod in store.children(Pod, run.uid) if (task := task_of(pod))}
    past = history(run.folder)
    traces = {
        task.name: _trace(run, pods.get(task), past.get(child_name(job, task.type, task.index), []))
        for task in desired(job)
    }
    return replicas_of(job, pods.values(), traces)


def _servers(store: Store, run: Run) -> list[Replica]:
    past = history(run.folder)
    found = []
    for pod in store.children(Pod, run.uid):
        name = pod.metadata.name
        trace = _trace(run, pod, past.get(name, []))
        found.append(replica_of(name, pod, trace, restarts=restarts_in_place(pod)))
    return found


def _trace(run: Run, pod: Pod | None, left: Sequence[PodRecord]) -> Trace:
    last = _newest(run, pod, left)
    container = main_container(Pod(status=last)) if last else None
    start = pod.metadata.annotations.get(HOW, "") if pod else ""
    return Trace(
        status=last,
        attempts=sum(1 + restarts_in_place(Pod(status=one.status or PodStatus())) for one in left),
        stopped=bool(left) and left[-1].stopped,
        start=start,
        could_be_warm=not start.endswith(NOT_SEEN),
        pid=main_process(left[-1].folder, container.name) if left and container else None,
        log_lost=sum(one.log_lost for one in left),
    )


def _newest(run: Run, pod: Pod | None, left: Sequence[PodRecord]) -> PodStatus | None:
    """Return the status that the supervisor wrote, which is newer than the stored one, unless the pod has ended."""
    written = left[-1].status if left else None
    if pod is None:
        return written
    over = pod.status.phase in ("Succeeded", "Failed")
    return pod.status if over or not written or left[-1].folder != pod_folder(run.folder, pod) else written
