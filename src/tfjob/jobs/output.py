"""What `-o json` and `-o yaml` print: the shape of every kind, and the meaning of its fields.

This is the contract for scripts and the source of the reference page. A kind `X` is printed alone or as `XList` with
`items`. Fields may be added at any time; a field that changes its meaning or is removed raises `OUTPUT_VERSION`. Times
are RFC 3339 in UTC. A value that does not apply is null, an empty string or an empty object.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

if TYPE_CHECKING:
    from tfjob.controller.actions import RecordedEvent
    from tfjob.jobs.backend import Line, Record, Replica


OUTPUT_VERSION = "tfjob/v1"
"""Raised when a field changes its meaning or goes; new fields may come at any time."""
JOB = {
    "name": "The job's name.",
    "id": "The name of this run, which stays with it when the job's name is used again: mnist.2. On a cluster the job's"
    " name for as long as it exists.",
    "namespace": "Its namespace.",
    "uid": "Its unique id.",
    "writtenFor": "The apiVersion of the manifest; apps/v1 is that of a Deployment.",
    "state": "Pending, Running, Restarting, Suspended, Succeeded or Failed.",
    "reason": "Why, in one word, where there is more to say than the state: Stopped, Interrupted, ReplicaFailed.",
    "message": "Why, in one sentence.",
    "ready": "Replicas that run or have succeeded, of those asked for: 2/3.",
    "restarts": "How often replicas were started again.",
    "attempt": "The number of the present attempt of the whole job, from 1.",
    "created": "When it was submitted.",
    "started": "When it started, or was last resumed.",
    "completed": "When it succeeded or failed.",
    "current": "Whether the job's name means this run.",
    "attached": "Whether it lives and dies with the `tfjob run` that shows it.",
    "folder": "Where its record lies: manifest, resolved job, logs, provenance, package versions; empty if nothing"
    " of it was kept here.",
    "failure": "Why it failed: replica, attempt, exitCode, signal, reason, message, lastLines, time.",
}

REPLICA = ("name", "phase", "attempts", "restarts", "exitCode", "address", "node", "resources", "start", "pid")


def job_shape(record: Record) -> dict[str, Any]:
    """A job in short: the row of `ps`."""
    status = record.status
    return {
        "name": record.name,
        "id": record.id,
        "namespace": record.namespace,
        "uid": record.uid,
        "writtenFor": record.written_for,
        "state": record.state,
        "reason": record.reason,
        "message": status.message,
        "ready": status.ready,
        "restarts": status.restarts,
        "attempt": status.attempt,
        "created": record.created,
        "started": status.start_time,
        "completed": status.completion_time,
        "current": record.current,
        "attached": record.attached,
        "folder": record.folder,
        "failure": status.failure,
    }


def replica_shape(replica: Replica) -> dict[str, Any]:
    return _fields(REPLICA, replica)


def event_shape(event: RecordedEvent) -> dict[str, Any]:
    return {
        "time": event.time,
        "last": event.last,
        "count": event.count,
        "type": "Warning" if event.warning else "Normal",
        "reason": event.reason,
        "message": event.message,
    }


def log_line_shape(line: Line) -> dict[str, Any]:
    return {"apiVersion": OUTPUT_VERSION, "kind": "LogLine", **line._asdict()}


def retry_rules() -> list[dict[str, str]]:
    """Return what follows when a replica ends, by restart policy."""
    from tfjob.plan.policy.restarts import RETRY_TABLE

    return [_fields(KINDS["RetryRule"].fields, row) for row in RETRY_TABLE]


def tf_job_retry_rules() -> list[dict[str, str]]:
    """Return what follows when a replica of a TfJob of tensorflow.org ends, by its type."""
    from tfjob.plan.policy.restarts import TF_JOB_TABLE

    return [_fields(KINDS["TfJobRetryRule"].fields, row) for row in TF_JOB_TABLE]


def _fields(names: Iterable[str], source: object) -> dict[str, Any]:
    """Return the attributes of an object under their names in JSON: `exit_code` as `exitCode`."""
    return {name: getattr(source, re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name)) for name in names}


def json_text(document: Any) -> str:
    """Return a document as `-o json` prints it."""
    return msgspec.json.format(msgspec.json.encode(document)).decode()


def yaml_text(document: Any) -> str:
    """Return a document as `-o yaml` prints it."""
    from tfjob.api.text import writer

    return writer.yaml_text([msgspec.json.decode(msgspec.json.encode(document))])


class Kind(NamedTuple):
    """One kind of object: what it is, who prints it, its fields."""

    words: str
    commands: tuple[str, ...]
    fields: dict[str, str]


KINDS = {
    "Job": Kind(
        "A run of a job in short.",
        ("run", "submit", "ps", "wait", "stop", "suspend", "resume", "scale", "delete", "prune"),
        JOB,
    ),
    "JobStatus": Kind(
        "A run of a job in full.",
        ("status",),
        {
            **JOB,
            "storage": "Where its own storage is: a folder with files in it or, on a cluster, a claim.",
            "replicas": "For each replica: name, phase, attempts, restarts, exitCode, address, node, resources,"
            " start (`warm`, or `cold: ` and why; empty on a cluster, and while there is no pod of it), pid (its main"
            " process while that runs on this machine; null on a cluster).",
            "status": "The status object as a cluster would keep it.",
        },
    ),
    "Process": Kind(
        "A replica as it would be started.",
        ("run --dry-run",),
        {
            "job": "The job's name.",
            "replica": "The replica: worker-0.",
            "pod": "The name of its pod.",
            "listens": "Where the other replicas reach it; addresses of the reduced levels are chosen at the start.",
            "restartPolicy": "What happens in place when a container ends.",
            "containers": "For each: name, init, argv, workingDir, mounts (source, target, readOnly), env, memory in "
            "bytes, cpu; what comes from a Secret reads (secret).",
        },
    ),
    "Event": Kind(
        "Something that happened to a job.",
        ("events",),
        {
            "time": "When it happened first.",
            "last": "When it happened last.",
            "count": "How often in a row.",
            "type": "Normal or Warning.",
            "reason": "What, in one word.",
            "message": "What, in one sentence.",
        },
    ),
    "LogLine": Kind(
        "A line of a replica; `logs` prints one object a line, without a list around them.",
        ("logs",),
        {
            "time": "When it was written.",
            "replica": "Who wrote it: worker-0, or worker-0/sidecar where there are several containers.",
            "text": "The line, without its end.",
            "more": "Whether the next object goes on with the same line: long ones are cut at 64 KiB.",
            "notice": "Whether tfjob wrote it, to say that something is missing here.",
        },
    ),
    "Problem": Kind(
        "Something wrong with a manifest.",
        ("check",),
        {
            "path": "The field: spec.tfReplicaSpecs.Worker.template.spec.containers[0].image.",
            "message": "What is wrong.",
            "hint": "What to do; left out when there is nothing to say.",
            "line": "From 1; left out when it is not known.",
            "column": "From 1; left out when it is not known.",
            "source": "The file.",
            "warning": "true if the manifest can be used all the same; left out otherwise.",
        },
    ),
    "Claim": Kind(
        "A persistent volume claim kept on this machine.",
        ("volume ls", "volume delete"),
        {
            "name": "Its name.",
            "namespace": "Its namespace.",
            "folder": "Where its files are.",
            "bytes": "The space they take.",
            "created": "When it was made.",
            "usedBy": "The pods that use it now.",
        },
    ),
    "RetryRule": Kind(
        "What follows when a replica ends in some way, by restart policy.",
        ("explain restarts",),
        {
            "cause": "How it ends.",
            "never": "With restartPolicy Never.",
            "exitCode": "With restartPolicy ExitCode.",
            "inPlace": "With restartPolicy OnFailure or Always.",
            "counts": "Whether it uses up runPolicy.backoffLimit.",
        },
    ),
    "TfJobRetryRule": Kind(
        "The same for a TfJob of tensorflow.org, where the type decides: the `tfJobItems` beside the `items`.",
        ("explain restarts",),
        {
            "cause": "How it ends.",
            "master": "A MASTER, or the replica that terminationPolicy.chief names.",
            "worker": "A WORKER.",
            "ps": "A PS.",
        },
    ),
    "Doctor": Kind(
        "What this machine can do for jobs.",
        ("doctor",),
        {
            "level": "The level that jobs run at: full, addresses or ports.",
            "capabilities": "By name: title, ok, problem, fix.",
            "home": "The state folder.",
            "node": "The machine: name, cpus, memory in bytes.",
            "warmStart": "Whether programs that import TensorFlow can start warm, with the interpreter that jobs of"
            " this folder get: title, ok, problem, fix.",
            "forkServers": "The processes that warm replicas are forked from: pid, python, tensorflow, forked (how many"
            " replicas), users (how many runs), endsIn (seconds, null while it is used).",
        },
    ),
    "ClusterDoctor": Kind(
        "What a cluster can do for jobs, and what you may do there.",
        ("doctor --on k8s",),
        {
            "context": "The context of the kubeconfig; empty inside a pod.",
            "server": "The address of the API server.",
            "namespace": "The namespace that rights were asked for.",
            "findings": "For each thing that was looked at: title, ok, problem, fix.",
        },
    ),
    "Version": Kind(
        "Who is of which release; what is not known, or not asked for, is empty.",
        ("version",),
        {
            "tfjob": "The release of this tool.",
            "python": "The version of its Python.",
            "kubernetes": "The cluster's version.",
            "oldest": "The oldest version of Kubernetes that is supported.",
            "crd": "The release of tfjob that the cluster's CRD is of.",
            "operator": "The operators that can be seen: image, ready pods, namespace.",
            "skew": "What does not go together, in one sentence.",
        },
    ),
}
