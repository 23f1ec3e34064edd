"""The TFJob: the one internal type (hub) that every API version is converted into.

It is `kubeflow.org/v1` as training-operator v1.9 defines it, plus fields of older versions and a status with more
detail. A pod template stays the plain dict that the user wrote.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tfjob.api.objects import Model, ObjectMeta
from tfjob.api.resources import Resource

GROUP = "kubeflow.org"
API_VERSION = "kubeflow.org/v1"
KIND = "TFJob"
TFJOBS = Resource(GROUP, "v1", "tfjobs", KIND)

CHIEF, EVALUATOR, MASTER, PS, WORKER = "Chief", "Evaluator", "Master", "PS", "Worker"
REPLICA_TYPES = (CHIEF, EVALUATOR, MASTER, PS, WORKER)
"""In the order in which v1.9 evaluates them, which determines the order of conditions and children."""

GANG_BACK_OFF = "gang"
"""The key in `status.backOff` for all members of a gang."""
MOST_REPLICAS = 2_500
"""The maximum of one job. TF_CONFIG lists every replica, and Linux limits the length of environment variables."""

PORT_NAME = "tfjob-port"
DEFAULT_PORT = 2222
CONTAINER_NAME = "tensorflow"

ORIGIN = "tfjob/origin"
"""Annotation: the apiVersion that the user wrote, if it is not v1. `dialect` has what depends on it."""
RUNTIME_ID = "tfjob/runtime-id"
"""Annotation: the random part of the child names of v1alpha1 jobs."""
PS_PORT = "tfjob/ps-port"
"""Annotation: the port of default parameter servers, which have no container with a port."""
UNSAID = "tfjob/unsaid"
"""Annotation: a `Note` of `versions.round_trip` for each version with something that this one cannot express."""
TF_CONFIG = "tfjob/tf-config"
"""Annotation: `always` if a job with a single replica gets TF_CONFIG too. v1.9 gives it none."""
EVALUATOR_GRACE = "tfjob/evaluator-grace-seconds"
"""Annotation: `runPolicy.evaluatorGraceSeconds` for versions that do not have the field."""
PARALLELISM = "tfjob/parallelism"
"""Annotation: the `parallelism` of a converted batch/v1 Job."""


class ReplicaSpec(Model, frozen=True):
    """A set of equal replicas. `template` is None only for a default parameter server."""

    replicas: int | None = None
    restart_policy: str | None = None
    template: dict[str, Any] | None = None

    @property
    def count(self) -> int:
        return 1 if self.replicas is None else self.replicas


class SchedulingPolicy(Model, frozen=True):
    """Instructions for a gang scheduler."""

    min_available: int | None = None
    queue: str = ""
    min_resources: dict[str, Any] = {}
    priority_class: str = ""
    schedule_timeout_seconds: int | None = None


class RunPolicy(Model, frozen=True):
    """How long the job may run, how often it is retried, and what is cleaned up."""

    clean_pod_policy: str | None = None
    ttl_seconds_after_finished: int | None = None
    active_deadline_seconds: int | None = None
    backoff_limit: int | None = None
    scheduling_policy: SchedulingPolicy | None = None
    suspend: bool = False
    managed_by: str | None = None
    evaluator_grace_seconds: int | None = None


class TensorBoard(Model, frozen=True):
    """A TensorBoard that runs alongside the job."""

    log_dir: str = ""
    image: str = ""
    service_type: str = ""
    volumes: list[dict[str, Any]] = []
    volume_mounts: list[dict[str, Any]] = []


class ChiefReference(Model, frozen=True):
    """The replica that decides when the job ends."""

    replica_name: str = MASTER
    replica_index: int = 0


class TerminationPolicy(Model, frozen=True):
    """v1alpha1's success rule."""

    chief: ChiefReference | None = None


class TFJobSpec(Model, frozen=True):
    """The desired state of a job."""

    tf_replica_specs: dict[str, ReplicaSpec] = {}
    run_policy: RunPolicy = RunPolicy()
    success_policy: str = ""
    enable_dynamic_worker: bool = False
    restart_scope: str = "Auto"
    tensor_board: TensorBoard | None = None
    termination_policy: TerminationPolicy | None = None
    tf_image: str = ""


class Condition(Model, frozen=True):
    """A condition: Created, Running, Restarting, Suspended, Succeeded or Failed."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_update_time: datetime | None = None
    last_transition_time: datetime | None = None


class ReplicaStatus(Model, frozen=True):
    """The number of pods of one type in each phase."""

    active: int = 0
    succeeded: int = 0
    failed: int = 0


class Verdict(Model, frozen=True):
    """Why the job failed or last restarted: the first failing replica, how it ended, what to do, and its last lines."""

    replica: str = ""
    attempt: int = 0
    exit_code: int | None = None
    signal: str = ""
    reason: str = ""
    message: str = ""
    advice: str = ""
    last_lines: list[str] = []
    time: datetime | None = None


class Restart(Model, frozen=True):
    """The last restart: its cause, which replicas restart, and when."""

    cause: Verdict = Verdict()
    scope: str = ""
    counted: bool = False
    streak: int = 0
    time: datetime | None = None
    not_before: datetime | None = None


class BackOff(Model, frozen=True):
    """How many times in a row a replica or gang restarted, and when it may start."""

    not_before: datetime
    restarts: int = 0


class TFJobStatus(Model, frozen=True):
    """The observed state of a job: the conditions and counts of v1.9, and a summary for people and workflows.

    `schema.descriptions` describes the fields. `started` tells a lost pod from a pod that was never created.
    """

    state: str = ""
    reason: str = ""
    message: str = ""
    ready: str = ""
    restarts: int = 0
    retries: int = 0
    attempt: int = 0
    observed_generation: int = 0
    conditions: list[Condition] = []
    replica_statuses: dict[str, ReplicaStatus] = {}
    started: dict[str, str] = {}
    completed_indexes: dict[str, str] = {}
    task_restarts: dict[str, int] = {}
    oom_killed: list[str] = []
    last_restart: Restart | None = None
    back_off: dict[str, BackOff] = {}
    told_restart: datetime | None = None
    failure: Verdict | None = None
    runtime_id: str = ""
    cleaning: bool = False
    start_time: datetime | None = None
    completion_time: datetime | None = None
    last_reconcile_time: datetime | None = None


class TFJob(Model, frozen=True, omit_defaults=False):
    """A TensorFlow training job."""

    api_version: str = API_VERSION
    kind: str = KIND
    metadata: ObjectMeta = ObjectMeta()
    spec: TFJobSpec = TFJobSpec()
    status: TFJobStatus = TFJobStatus()
