"""The Kubernetes objects around a job, reduced to the fields that we read; the rest of a pod stays a plain dict."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Protocol

import msgspec

OPERATOR_NAME_LABEL, OPERATOR_NAME = "training.kubeflow.org/operator-name", "tfjob-controller"
"""The label by which a cluster finds the children of all owners; training-operator sets it too."""
PEAK_MEMORY = "tfjob/peak-memory"
"""Annotation of a pod: the most memory its main container used, in bytes, where the cluster measures it."""
NEEDED_MODULE = "tfjob/needs-python-module"
"""Annotation of a pod: a module that its interpreter on this machine must have."""
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""Annotation: the whole object once more, as `kubectl apply` was given it."""


class Model(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A value that encodes to and decodes from the JSON of the Kubernetes API."""


class OwnerReference(Model, frozen=True):
    """Which object a child belongs to."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Model, frozen=True):
    """What every object carries."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[OwnerReference] = []
    finalizers: list[str] = []


class Object(Protocol):
    """An object of any kind."""

    @property
    def api_version(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def metadata(self) -> ObjectMeta: ...


class ContainerWaiting(Model, frozen=True):
    """A container that has not started, and why."""

    reason: str = ""
    message: str = ""


class ContainerRunning(Model, frozen=True):
    """A container that runs."""

    started_at: datetime | None = None


class ContainerTerminated(Model, frozen=True):
    """How a container ended; a signal shows as 128 + its number in `exit_code`, as a container runtime reports it."""

    exit_code: int
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class ContainerState(Model, frozen=True):
    """Exactly one of the three is set; none means that nothing is known yet."""

    waiting: ContainerWaiting | None = None
    running: ContainerRunning | None = None
    terminated: ContainerTerminated | None = None


class ContainerStatus(Model, frozen=True):
    """One container of a pod, now (`state`) and before its last restart in place (`last_state`)."""

    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodCondition(Model, frozen=True):
    """One condition of a pod, such as PodScheduled or DisruptionTarget, or of a Job."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class PodStatus(Model, frozen=True):
    """What the kubelet, or the local one, says about a pod."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    start_time: datetime | None = None
    conditions: list[PodCondition] = []
    container_statuses: list[ContainerStatus] = []
    init_container_statuses: list[ContainerStatus] = []
    pod_ip: str = msgspec.field(default="", name="podIP")


class Pod(Model, frozen=True, omit_defaults=False):
    """A pod: its spec whole and untyped, its status typed."""

    api_version: str = "v1"
    kind: str = "Pod"
    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}
    status: PodStatus = PodStatus()

    @property
    def is_ready(self) -> bool:
        """Whether it takes connections: its Ready condition is true, and it is not being deleted."""
        ready = any(one.type == "Ready" and one.status == "True" for one in self.status.conditions)
        return ready and self.metadata.deletion_timestamp is None

    def port(self, target: int | str) -> int | None:
        """Return the number of a port that may be given by its name; None if no container has a port of that name."""
        if isinstance(target, int) or target.isdecimal():
            return int(target)
        ports = (port for container in self.spec.get("containers") or () for port in container.get("ports") or ())
        return next((port["containerPort"] for port in ports if port.get("name") == target), None)


class Service(Model, frozen=True, omit_defaults=False):
    """The stable name of one replica, or one address for several pods."""

    api_version: str = "v1"
    kind: str = "Service"
    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}


class PodGroupStatus(Model, frozen=True):
    """What a gang scheduler says about a group."""

    phase: str = ""


class PodGroup(Model, frozen=True, omit_defaults=False):
    """The pods that a gang scheduler starts together or not at all; its group and version are the scheduler's."""

    api_version: str = ""
    kind: str = "PodGroup"
    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}
    status: PodGroupStatus = PodGroupStatus()


class ConfigMap(Model, frozen=True, omit_defaults=False):
    """Files that pods of a job mount."""

    api_version: str = "v1"
    kind: str = "ConfigMap"
    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = {}


class DeploymentStatus(Model, frozen=True):
    """What the Deployment controller, or the local one, says: pods that are not being deleted, by how far they are.

    Only the local one counts the restarts of their containers.
    """

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    restarts: int = 0
    conditions: list[PodCondition] = []

    @property
    def state(self) -> str:
        """Running, Pending, Suspended or Failed; empty if no controller has seen the Deployment yet."""
        found = {one.type: one.status for one in self.conditions}
        if found.get("Suspended") == "True":
            return "Suspended"
        if found.get("Progressing") == "False":
            return "Failed"
        return ("Running" if found.get("Available") == "True" else "Pending") if found else ""

    @property
    def reason(self) -> str:
        return self.conditions[-1].reason if self.conditions else ""

    @property
    def message(self) -> str:
        return self.conditions[-1].message if self.conditions else ""


class Deployment(Model, frozen=True, omit_defaults=False):
    """A server: pods of one template that are kept running."""

    api_version: str = "apps/v1"
    kind: str = "Deployment"
    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}
    status: DeploymentStatus = DeploymentStatus()

    @property
    def wanted_replicas(self) -> int:
        replicas = self.spec.get("replicas")
        return 1 if replicas is None else int(replicas)


class JobStatus(Model, frozen=True):
    """What the Job controller says."""

    conditions: list[PodCondition] = []


class Job(Model, frozen=True, omit_defaults=False):
    """What runs a pod of a TfJob."""

    api_version: str = "batch/v1"
    kind: str = "Job"
    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}
    status: JobStatus = JobStatus()
