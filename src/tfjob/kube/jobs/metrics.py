"""Resource usage of a job's pods, if the cluster serves metrics.k8s.io."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from tfjob.api import quantity
from tfjob.api.objects import ObjectMeta
from tfjob.api.resources import POD_METRICS
from tfjob.api.types import TFJob
from tfjob.jobs.backend import Usage
from tfjob.kube.access.errors import Forbidden, NotFound
from tfjob.kube.client.client import Client
from tfjob.kube.jobs.container_logs import selector


class ContainerMetrics(Struct):
    """Usage of one container."""

    usage: dict[str, str] = {}


class PodMetrics(Struct):
    """Usage of one pod, as the metrics server last measured it."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    containers: list[ContainerMetrics] = []

    def total(self) -> Usage:
        cpu, memory = (
            [quantity.parse(one.usage[name]) for one in self.containers if name in one.usage]
            for name in ("cpu", "memory")
        )
        return Usage(float(sum(cpu)) if cpu else None, int(sum(memory)) if memory else None)


async def usage_by_pod(client: Client, job: TFJob) -> Mapping[str, Usage] | None:
    """Return the usage by pod name; None if the cluster does not serve it, or not to us."""
    try:
        found = await client.list(POD_METRICS, job.metadata.namespace, label_selector=selector(job), type=PodMetrics)
    except (NotFound, Forbidden):
        return None
    return {pod.metadata.name: pod.total() for pod in found.items}
