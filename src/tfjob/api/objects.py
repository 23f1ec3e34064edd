"""The Kubernetes objects around a job, reduced to the fields that we read; the rest of a pod stays a plain dict."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Protocol

import msgspec

OPERATOR_NAME_LABEL, OPERATOR_NAME = "training.kubeflow.org/operator-name", "tfjob-controller"
"""The label by which a cluster finds the children of all owners; training-operator sets it too."""
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


class Service(Model, frozen=True, omit_defaults=False):
    """The stable name of one replica."""

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
    """What the deployment controller, or the local one, says."""

    ready_replicas: int = 0


class Deployment(Model, frozen=True, omit_defaults=False):
    """A server beside a job that outlives its end."""

    api_version: str = "apps/v1"
    kind: str = "Deployment"
    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}
    status: DeploymentStatus = DeploymentStatus()


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
