"""The TFJob: the one internal type (hub) that every API version is converted into.

It is `kubeflow.org/v1` as training-operator v1.9 defines it, plus the fields that the older versions had and the
status that explains what happened. A pod template is kept as the plain dict that the user wrote.
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
"""In the order in which v1.9 evaluates them; the order of conditions and children follows from it."""

GANG_BACK_OFF = "gang"
"""What has the name of a task in `status.backOff` for all members of a gang."""
MOST_REPLICAS = 2_500
"""Of one job. TF_CONFIG names every replica, and Linux allows no longer variable than that makes it."""

PORT_NAME = "tfjob-port"
DEFAULT_PORT = 2222
CONTAINER_NAME = "tensorflow"
JOB_VOLUME = "tfjob-data"
"""The volume that is a job's own storage."""

ORIGIN = "tfjob/origin"
"""Annotation: the apiVersion that the user wrote, where it is not v1; `dialect.py` says what depends on it."""
RUNTIME_ID = "tfjob/runtime-id"
"""Annotation: the random part of child names that v1alpha1 jobs have."""
PS_PORT = "tfjob/ps-port"
"""Annotation: the port of default parameter servers, whose replica has no container that could say it."""
UNSAID = "tfjob/unsaid"
"""Annotation: a `Note` of `versions.round_trip` for each version that says something which this one cannot."""
PARALLELISM = "tfjob/parallelism"
"""Annotation: how many replicas of a converted batch/v1 Job run at once."""


class ReplicaSpec(Model, frozen=True):
    """A set of equal tasks. `template` is None only for the default parameter server."""

    replicas: int | None = None
    restart_policy: str | None = None
    template: dict[str, Any] | None = None


class SchedulingPolicy(Model, frozen=True):
    """Instructions for a gang scheduler."""

    min_available: int | None = None
    queue: str = ""
    min_resources: dict[str, Any] = {}
    priority_class: str = ""
    schedule_timeout_seconds: int | None = None


class RunPolicy(Model, frozen=True):
    """How long the job may run, how often it may be retried, and what stays afterwards."""

    clean_pod_policy: str | None = None
    ttl_seconds_after_finished: int | None = None
    active_deadline_seconds: int | None = None
    backoff_limit: int | None = None
    scheduling_policy: SchedulingPolicy | None = None
    suspend: bool = False
    managed_by: str | None = None


class TensorBoard(Model, frozen=True):
    """A TensorBoard that runs alongside the job."""

    log_dir: str = ""
    image: str = ""
    service_type: str = ""
    volumes: list[dict[str, Any]] = []
    volume_mounts: list[dict[str, Any]] = []


class ChiefReference(Model, frozen=True):
    """The task whose end is the job's end."""

    replica_name: str = MASTER
    replica_index: int = 0


class TerminationPolicy(Model, frozen=True):
    """v1alpha1's success rule."""

    chief: ChiefReference | None = None


class TFJobSpec(Model, frozen=True):
    """What the user asks for."""

    tf_replica_specs: dict[str, ReplicaSpec] = {}
    run_policy: RunPolicy = RunPolicy()
    success_policy: str = ""
    enable_dynamic_worker: bool = False
    restart_scope: str = "Auto"
    tensor_board: TensorBoard | None = None
    termination_policy: TerminationPolicy | None = None
    tf_image: str = ""


class Condition(Model, frozen=True):
    """One of Created, Running, Restarting, Suspended, Succeeded, Failed."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_update_time: datetime | None = None
    last_transition_time: datetime | None = None


class ReplicaStatus(Model, frozen=True):
    """Pods of one type by phase."""

    active: int = 0
    succeeded: int = 0
    failed: int = 0


class Verdict(Model, frozen=True):
    """Why the job failed or last restarted: the first failing replica, how it ended, and its last lines."""

    replica: str = ""
    attempt: int = 0
    exit_code: int | None = None
    signal: str = ""
    reason: str = ""
    message: str = ""
    last_lines: list[str] = []
    time: datetime | None = None


class Restart(Model, frozen=True):
    """The restart that was recorded last: what ended, which tasks run again, and from when."""

    cause: Verdict = Verdict()
    scope: str = ""
    counted: bool = False
    streak: int = 0
    time: datetime | None = None
    not_before: datetime | None = None


class BackOff(Model, frozen=True):
    """How many times in a row a task, or a gang, started again, and when it may start."""

    not_before: datetime
    restarts: int = 0


class TFJobStatus(Model, frozen=True):
    """What happened: v1.9's conditions and counts, and a flat summary that a person or a workflow can wait on.

    `started` and `completed_indexes` hold the indexes per type, as ranges, whose pod was seen and whose task exited 0
    in the present attempt; with them, a lost pod differs from one that was never created. `runtime_id` is the
    random part of the names of a TfJob's children, and `cleaning` says that some of them still have to go: only jobs
    of v1alpha1 have them.
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
