"""The Kubernetes objects that a job uses, with the fields that we read; specs stay plain dicts."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Protocol

import msgspec

OPERATOR_NAME_LABEL, OPERATOR_NAME = "training.kubeflow.org/operator-name", "tfjob-controller"
"""The label by which a cluster finds the children of all owners; training-operator sets it too."""
PEAK_MEMORY = "tfjob/peak-memory"
"""Annotation of a pod: peak memory of its main container in bytes, if the cluster measures it."""
NEEDED_MODULE = "tfjob/needs-python-module"
"""Annotation of a pod: a module that its Python interpreter on this machine must have."""
SAME_PORTS = "tfjob/same-ports"
"""Annotation of a Service: on this machine, it has its own port numbers at 127.0.0.1, instead of free ones."""
JOB_VOLUME = "tfjob-data"
"""The volume that is a job's storage; `plan/build/job_storage` describes it."""
JOB_MOUNT_PATH = "/tfjob-data"
"""Where the volume is mounted if tfjob adds it, unless something else is mounted there."""
JOB_FOLDERS = ("TFJOB_CHECKPOINT_DIR", "TFJOB_OUTPUT_DIR", "TFJOB_SCRATCH_DIR")
"""The environment variables that name the folders in the volume."""
SENT_FILES = "tfjob-files"
"""The volume of a pod with the files that tfjob sent, and the init container that unpacks them."""
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""Annotation: a copy of the object as it was passed to `kubectl apply`."""


def own_claim_name(job_name: str) -> str:
    """Return the claim of a job that names no volume; all jobs of that name share it."""
    return f"{job_name}-{JOB_VOLUME}"


class Model(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A value that encodes to and decodes from the JSON of the Kubernetes API."""


class OwnerReference(Model, frozen=True):
    """The object that owns a child."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Model, frozen=True):
    """The metadata of any object."""

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


class StoredObject(Model, frozen=True, omit_defaults=False):
    """The fields that the kinds below have in common."""

    api_version: str = "v1"
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}


class ContainerWaiting(Model, frozen=True):
    """Why a container has not started."""

    reason: str = ""
    message: str = ""


class ContainerRunning(Model, frozen=True):
    """When a running container started."""

    started_at: datetime | None = None


class ContainerTerminated(Model, frozen=True):
    """How a container ended. As in container runtimes, `exit_code` is 128 plus the number of a signal."""

    exit_code: int
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class ContainerState(Model, frozen=True):
    """The state of a container: one of the three is set, or none if the state is unknown."""

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
    """The status of a pod, as a kubelet or the local driver reports it."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    start_time: datetime | None = None
    conditions: list[PodCondition] = []
    container_statuses: list[ContainerStatus] = []
    init_container_statuses: list[ContainerStatus] = []
    pod_ip: str = msgspec.field(default="", name="podIP")


class Pod(StoredObject, frozen=True):
    """A pod with a typed status."""

    kind: str = "Pod"
    status: PodStatus = PodStatus()

    @property
    def is_ready(self) -> bool:
        """Whether the pod accepts connections: its Ready condition is true, and it is not being deleted."""
        ready = any(one.type == "Ready" and one.status == "True" for one in self.status.conditions)
        return ready and self.metadata.deletion_timestamp is None

    @property
    def obstacles(self) -> list[str]:
        """Why the pod does not run yet: it cannot be scheduled, or containers wait."""
        unmet = [one for one in self.status.conditions if one.type == "PodScheduled" and one.status == "False"]
        waiting = [one.state.waiting for one in self.status.container_statuses if one.state.waiting]
        reasons = [*((one.reason, one.message) for one in unmet), *((one.reason, one.message) for one in waiting)]
        return [": ".join(filter(None, reason)) for reason in reasons]

    def port(self, target: int | str) -> int | None:
        """Return the number of a port, which may be given by name; None if no container has a port of that name."""
        if isinstance(target, int) or target.isdecimal():
            return int(target)
        ports = (port for container in self.spec.get("containers") or () for port in container.get("ports") or ())
        return next((port["containerPort"] for port in ports if port.get("name") == target), None)


class Service(StoredObject, frozen=True):
    """The stable name of one replica, or one address for several pods."""

    kind: str = "Service"


class PodGroupStatus(Model, frozen=True):
    """The status of a group, as a gang scheduler reports it."""

    phase: str = ""


class PodGroup(StoredObject, frozen=True):
    """Pods that a gang scheduler starts together or not at all. The API version depends on the scheduler."""

    api_version: str = ""
    kind: str = "PodGroup"
    status: PodGroupStatus = PodGroupStatus()


class ConfigMap(Model, frozen=True, omit_defaults=False):
    """Files that the pods of a job mount."""

    api_version: str = "v1"
    kind: str = "ConfigMap"
    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = {}


class DeploymentStatus(Model, frozen=True):
    """The status of a Deployment. The counts exclude pods that are being deleted; only local runs set `restarts`."""

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    restarts: int = 0
    conditions: list[PodCondition] = []

    @property
    def state(self) -> str:
        """Running, Pending, Suspended or Failed; empty if no controller has processed the Deployment yet."""
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


class Deployment(StoredObject, frozen=True):
    """A server: pods of one template that are kept running."""

    api_version: str = "apps/v1"
    kind: str = "Deployment"
    status: DeploymentStatus = DeploymentStatus()

    @property
    def wanted_replicas(self) -> int:
        replicas = self.spec.get("replicas")
        return 1 if replicas is None else int(replicas)


class JobStatus(Model, frozen=True):
    """The status of a Job, as its controller reports it."""

    conditions: list[PodCondition] = []


class Job(StoredObject, frozen=True):
    """The Job that runs a pod of a 2017 TfJob."""

    api_version: str = "batch/v1"
    kind: str = "Job"
    status: JobStatus = JobStatus()
