"""The reasons and messages of every event and condition of a TFJob.

`about` fills in the name of the job; `str.format` fills in other names in braces. `policy.verdict` describes the end of
one replica. Reasons that are not listed here, such as `ImagePullBackOff`, come from the cluster.
"""

from __future__ import annotations

from datetime import timedelta

from tfjob.api.types import TFJob, Verdict
from tfjob.controller.actions import Event

EVENT_BYTES, MESSAGE_BYTES, SENTENCE_BYTES = 1000, 800, 512
"""The longest text of an event, of a status, and of a message from a cluster or a program."""

# --- conditions, as training-operator v1.9 has them -------------------------------------------------------------------

IS_CREATED, IS_RUNNING = "TFJob {name} is created.", "TFJob {namespace}/{name} is running."
TFJOB_RESTARTING, IS_RESTARTING = "TFJobRestarting", "TFJob {name} is restarting because {why}."
TFJOB_SUSPENDED, IS_SUSPENDED = "TFJobSuspended", "TFJob {name} is suspended."
TFJOB_RESUMED, IS_RESUMED = "TFJobResumed", "TFJob {name} is resumed."
TFJOB_SUCCEEDED, HAS_SUCCEEDED = "TFJobSucceeded", "TFJob {namespace}/{name} successfully completed: {rule}."
TFJOB_FAILED, HAS_FAILED = "TFJobFailed", "TFJob {namespace}/{name} has failed because {why}."

EVERY_REPLICA_DONE, REPLICA_DONE = "every replica exited 0", "{replica} exited 0"
STOPPED_DONE = "every replica exited 0 when the job was stopped"
REPLICAS_DONE = "all {count} {kind} replicas exited 0"

# --- why a job failed or restarts -------------------------------------------------------------------------------------

BACKOFF_LIMIT_EXCEEDED, DEADLINE_EXCEEDED, INVALID_SPEC = "BackoffLimitExceeded", "DeadlineExceeded", "InvalidSpec"
REPLICA_FAILED, OOM_KILLED = "ReplicaFailed", "OOMKilled"
POD_LOST, POD_DELETED, POD_FAILED, NODE_NOT_READY = "PodLost", "PodDeleted", "PodFailed", "NodeNotReady"
RESIZED, HELD_BACK = "Resized", "HeldBack"
EVALUATING = "WaitingForEvaluator"
"""The training has succeeded, and the evaluator may finish; `lastReconcileTime` is then the start of the wait."""
WAITING_FOR_EVALUATOR = "{rule}; waiting up to {seconds:.0f} s for the evaluator to finish"
EVALUATOR_DONE, EVALUATOR_STOPPED = "{evaluator} has finished", "{evaluator} was stopped after {seconds:.0f} s"
SETTLING = "Settling"
"""The job waits for the cause of a failure; `lastReconcileTime` is then the start of the wait."""
WAITING_FOR_CAUSE = "{failure}; waiting to see whether another replica failed first"
ACTIVE_TOO_LONG = "it was active longer than activeDeadlineSeconds ({seconds} s)"
RESTARTED_TOO_OFTEN = "a replica was restarted too often"
NO_RESTARTS_LEFT = "{failure}; no restarts are left (backoffLimit {limit})"
POD_GONE, POD_LEAVING, NODE_LOST = "its pod is gone", "its pod is being deleted", "node {node} is not ready"
SIZE_CHANGED, NOT_BACK = "the number of replicas changed", "{task} had not restarted yet"

# --- why a job does not run yet ---------------------------------------------------------------------------------------

CRASH_LOOP = "CrashLoopBackOff"
POD_GROUP_PENDING, UNSCHEDULABLE, NODE_UNREACHABLE = "PodGroupPending", "Unschedulable", "NodeUnreachable"
STARTING = "Starting"
"""A task does not run yet, for an unknown reason; any other reason takes precedence."""
RESTARTED = "Restarting"
"""A container has ended and restarts in place now: without a pause, or because its pause is over."""

NOT_STARTED, OLD_POD_EXISTS = "it has not started yet", "its old pod still exists"
AFTER_A_PAUSE, NEXT_START = "it restarts after a pause", "next start at {at:%H:%M:%S} UTC"
GROUP_LEAVING = "the old PodGroup {name} is being deleted"
GROUP_NOT_ADMITTED = "{scheduler} has not admitted PodGroup {name} yet"
POD_STUCK = "pod {pod} cannot be removed while node {node} does not answer"


def shortened(text: str, limit: int = SENTENCE_BYTES) -> str:
    """Return a text of at most `limit` bytes; an ellipsis marks the cut."""
    encoded = text.encode(errors="replace")
    return text if len(encoded) <= limit else encoded[: limit - 3].decode(errors="ignore") + "…"


def about(job: TFJob, text: str, **values: str) -> str:
    return text.format(name=job.metadata.name, namespace=job.metadata.namespace, **values)


# --- events -----------------------------------------------------------------------------------------------------------

RESIZE = Event(RESIZED, f"{SIZE_CHANGED}: the gang restarts with a new TF_CONFIG")
GROUP_DELETED = Event("JobTerminated", "Job has been terminated. Deleting PodGroup")
OTHER_SCHEDULER = Event(
    "SetPodTemplateSchedulerName",
    "Another scheduler is specified when gang-scheduling is enabled and it will not be overwritten",
    warning=True,
)


def left_alone(job: TFJob, problems: str) -> Event:
    text = f"TFJob {job.metadata.name} stays unchanged until its spec is corrected: {problems}"
    return Event(INVALID_SPEC, shortened(text, EVENT_BYTES), warning=True)


def policy_overwritten(kind: str) -> Event:
    text = f"{kind}: Restart policy in pod template will be overwritten by restart policy in replica spec"
    return Event("SetPodTemplateRestartPolicy", text, warning=True)


def accelerator_overridden(kind: str, what: str) -> Event:
    return Event("AcceleratorOverridden", f"{kind}: {what}", warning=True)


def ended(cause: Verdict) -> Event:
    text = f"{cause.message}. {cause.advice}" if cause.advice else cause.message
    return Event("ExitedWithCode" if cause.exit_code is not None else cause.reason, shortened(text, EVENT_BYTES))


def restart(job: TFJob, why: str, again: str) -> Event:
    text = f"{about(job, IS_RESTARTING, why=why).removesuffix('.')}; starting again: {again}."
    return Event(TFJOB_RESTARTING, shortened(text, EVENT_BYTES), warning=True)


def restart_in_place(job: TFJob, end: str, retries: int, pause: timedelta | None, *, waits: bool) -> Event:
    limit = job.spec.run_policy.backoff_limit
    bound = "no backoffLimit" if limit is None else f"backoffLimit {limit}"
    later = f"it restarts in {pause.total_seconds():.0f} s" if pause else AFTER_A_PAUSE
    again = later if waits else "it was restarted"
    return Event(TFJOB_RESTARTING, f"{shortened(end)}; {again} (retry {retries}, {bound})", warning=True)


def failure(text: str, cause: Verdict) -> Event:
    advice = f" {cause.advice}" if cause.advice else ""
    last = f" Last line: {cause.last_lines[-1]}" if cause.last_lines else ""
    return Event(TFJOB_FAILED, shortened(f"{text}{advice}{last}", EVENT_BYTES), warning=True)
