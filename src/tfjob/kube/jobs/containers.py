"""The containers of a job's pods: what their lines are called, and whether there can be any."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tfjob.api.dialect import origin
from tfjob.api.names import RUNTIME_ID_LABEL, name_label
from tfjob.api.objects import ContainerStatus, Pod
from tfjob.api.types import TFJob
from tfjob.jobs.logs import container_labels
from tfjob.kube.client.client import Client
from tfjob.kube.client.resources import PODS
from tfjob.plan.facts.tasks import task_of


@dataclass(frozen=True)
class Container:
    """A container of a pod, init containers too."""

    pod: Pod
    name: str
    label: str
    status: ContainerStatus | None

    @property
    def key(self) -> tuple[str, str]:
        """The same for as long as the pod lives."""
        return self.pod.metadata.uid, self.name

    @property
    def run(self) -> str:
        """Which of its runs this is."""
        return f"{self.pod.metadata.uid[:8]}/{self.restarts}"

    @property
    def restarts(self) -> int:
        """How often the kubelet has restarted it."""
        return self.status.restart_count if self.status else 0

    @property
    def has_log(self) -> bool:
        """Whether it has started, so that its present or last run has a log."""
        status = self.status
        if status is None:
            return False
        return bool(status.state.running or status.state.terminated or status.last_state.terminated)

    @property
    def has_ended(self) -> bool:
        """Whether this run of it is over."""
        return self.status is not None and self.status.state.running is None and self.has_log

    @property
    def log_path(self) -> str:
        """Where its log is."""
        return PODS.object_path(self.pod.metadata.namespace, self.pod.metadata.name, "log")


def selector(job: TFJob) -> str:
    """The label selector of a job's pods; those of an earlier job of its name answer to it too."""
    return f"{name_label(job)}={job.metadata.name}"


async def pods_of(client: Client, job: TFJob) -> list[Pod]:
    """The pods that belong to this very job."""
    found = await client.list(PODS, job.metadata.namespace, label_selector=selector(job), type=Pod)
    return [pod for pod in found.items if belongs(pod, job)]


def belongs(pod: Pod, job: TFJob) -> bool:
    """Whether a pod is of this very job."""
    if origin(job).is_first:  # its Job's
        return pod.metadata.labels.get(RUNTIME_ID_LABEL) == job.status.runtime_id != ""
    return any(owner.uid == job.metadata.uid for owner in pod.metadata.owner_references)


def containers_of(pods: Iterable[Pod], replica: str | None = None) -> list[Container]:
    """The containers that `replica` means: all, those of one replica or pod, or one (`worker-0/sidecar`)."""
    found = []
    wanted, _, only = (replica or "").partition("/")
    for pod in sorted(pods, key=_order):
        task = task_of(pod)
        name = task.name if task else pod.metadata.name
        if wanted and wanted not in (name, pod.metadata.name):
            continue
        statuses = {
            status.name: status for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)
        }
        for container, label in container_labels(name, pod.spec).items():
            if only in ("", container):
                found.append(Container(pod, container, label, statuses.get(container)))
    return found


def _order(pod: Pod) -> tuple[str, int]:
    task = task_of(pod)
    return (task.type, task.index) if task else (pod.metadata.name, 0)
