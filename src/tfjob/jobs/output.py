"""The objects that `-o json` and `-o yaml` print: the shape of every kind, and descriptions of its fields.

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
    from tfjob.jobs.backend import Record, Replica


OUTPUT_VERSION = "tfjob/v1"
JOB = {
    "name": "Name of the job.",
    "id": "Unique name of this run, such as mnist.2, which later runs of the job do not reuse. On a cluster, the name"
    " of the job while it exists.",
    "namespace": "Namespace of the job.",
    "uid": "Unique id of the job.",
    "writtenFor": "apiVersion of the manifest; apps/v1 for a Deployment.",
    "state": "Pending, Running, Restarting, Suspended, Succeeded or Failed.",
    "reason": "Reason for the state in one word, such as Stopped, Interrupted or ReplicaFailed, if there is one.",
    "message": "Reason for the state in one sentence.",
    "ready": "Number of running or succeeded replicas, of all replicas: 2/3.",
    "restarts": "Number of restarts of replicas.",
    "attempt": "Number of the present attempt of the whole job, starting at 1.",
    "created": "Time of submission.",
    "started": "Time of the start, or of the last resume.",
    "completed": "Time at which the job succeeded or failed.",
    "current": "Whether the name of the job means this run; false for earlier runs.",
    "attached": "Whether the job ends with the `tfjob run` that shows it.",
    "folder": "Folder with the record on this machine: manifest, resolved job, logs, provenance and package versions;"
    " empty if there is no record.",
    "failure": "Why the job failed: replica, attempt, exitCode, signal, reason, message, advice, lastLines, time.",
}

OF_STATUS = ("message", "ready", "restarts", "attempt", "failure")
"""The fields of a job that its status has."""
REPLICA = (
    "name",
    "phase",
    "attempts",
    "restarts",
    "exitCode",
    "address",
    "node",
    "resources",
    "start",
    "pid",
    "logLost",
)


def job_shape(record: Record) -> dict[str, Any]:
    status = record.status
    times = {"started": status.start_time, "completed": status.completion_time}
    of_record = _fields(JOB.keys() - times.keys() - set(OF_STATUS), record)
    found = {**of_record, **_fields(OF_STATUS, status), **times}
    return {name: found[name] for name in JOB}


def replica_shape(replica: Replica) -> dict[str, Any]:
    return _fields(REPLICA, replica)


def event_shape(event: RecordedEvent) -> dict[str, Any]:
    kind = {"type": "Warning" if event.warning else "Normal"}
    return _fields(("time", "last", "count"), event) | kind | _fields(("reason", "message"), event)


def retry_rules() -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Return the rules by restart policy, and those of a TfJob of tensorflow.org by replica type."""
    from tfjob.plan.policy.restarts import RETRY_TABLE, TF_JOB_TABLE

    by_type = [_fields(KINDS["TfJobRetryRule"].fields, row) for row in TF_JOB_TABLE]
    return [_fields(KINDS["RetryRule"].fields, row) for row in RETRY_TABLE], by_type


def known_errors() -> list[dict[str, Any]]:
    from tfjob.plan.policy.known_errors import KNOWN_ERRORS

    return [_fields(KINDS["KnownError"].fields, entry) for entry in KNOWN_ERRORS]


def _fields(names: Iterable[str], source: object) -> dict[str, Any]:
    """Return attributes of an object by their JSON names: `exit_code` as `exitCode`."""
    return {name: getattr(source, re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name)) for name in names}


def json_text(document: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(document)).decode()


def yaml_text(document: Any) -> str:
    from tfjob.api.text import writer

    return writer.yaml_text([msgspec.json.decode(msgspec.json.encode(document))])


class Kind(NamedTuple):
    """One kind of object: its description, the commands that print it, and its fields."""

    words: str
    commands: tuple[str, ...]
    fields: dict[str, str]


KINDS = {
    "Job": Kind(
        "Summary of a run.",
        ("run", "submit", "ps", "wait", "stop", "suspend", "resume", "scale", "delete", "prune"),
        JOB,
    ),
    "JobStatus": Kind(
        "Details of a run.",
        ("status",),
        {
            **JOB,
            "storage": "Storage of the job: a folder or, on a cluster, a claim; empty if it holds nothing yet.",
            "replicas": "For each replica: name, phase, attempts, restarts, exitCode, address, node, resources,"
            " start (`warm`, or `cold: ` and the reason; empty on a cluster and without a pod), pid (main process while"
            " it is running on this machine; null on a cluster), logLost (bytes of output that could not be written to"
            " its log on this machine, because the disk was full).",
            "status": "Status object of the TFJob.",
        },
    ),
    "ModelServer": Kind(
        "A server of a model.",
        ("serve status",),
        {
            "name": "Name of its Deployment and its Service.",
            "namespace": "Its namespace.",
            "model": "Name of the model.",
            "state": "Running, Pending, Suspended or CrashLoopBackOff.",
            "ready": "Ready pods and wanted pods, such as 1/2.",
            "image": "Image of its pods; it has no effect on this machine.",
            "grpc": "Address for gRPC; on a cluster, the name of the Service.",
            "rest": "Address for REST; on a cluster, the name of the Service.",
            "versions": "Available versions, the newest first; empty if the server did not answer.",
        },
    ),
    "Process": Kind(
        "A replica that would be started.",
        ("run --dry-run",),
        {
            "job": "Name of the job.",
            "replica": "Name of the replica, such as worker-0.",
            "pod": "Name of its pod.",
            "listens": "Address for other replicas; the levels addresses and ports choose addresses at the start.",
            "restartPolicy": "Restart policy of the pod, for restarts in place.",
            "passed": "Names of the variables that the calling shell or an env file provides.",
            "containers": "For each container: name, init, argv, workingDir, mounts (source, target, readOnly), env,"
            " memory in bytes, cpu; values from Secrets are replaced by (secret).",
        },
    ),
    "Event": Kind(
        "An event of a job.",
        ("events",),
        {
            "time": "Time of the first occurrence.",
            "last": "Time of the last occurrence.",
            "count": "Number of occurrences in a row.",
            "type": "Normal or Warning.",
            "reason": "Reason in one word.",
            "message": "Description in one sentence.",
        },
    ),
    "LogLine": Kind(
        "A line of a log. `logs` prints one object per line, not a list.",
        ("logs",),
        {
            "job": "Unique name of the run, as in the field `id` of a Job.",
            "time": "Time at which the line was written.",
            "replica": "Source: worker-0, or worker-0/sidecar if the replica has several containers.",
            "text": "The line without its newline.",
            "more": "Whether the next object continues this line; lines are split at 64 KiB.",
            "notice": "Whether tfjob wrote the line, to report missing lines.",
        },
    ),
    "Problem": Kind(
        "A problem of a manifest.",
        ("check",),
        {
            "path": "Path of the field, such as spec.tfReplicaSpecs.Worker.template.spec.containers[0].image.",
            "message": "What is wrong.",
            "hint": "What to do; omitted if there is no hint.",
            "line": "Line, starting at 1; omitted if unknown.",
            "column": "Column, starting at 1; omitted if unknown.",
            "source": "The file.",
            "warning": "true if the manifest can still be used; omitted for errors.",
        },
    ),
    "Claim": Kind(
        "A PersistentVolumeClaim on this machine.",
        ("volume ls", "volume delete"),
        {
            "name": "Name of the claim.",
            "namespace": "Namespace of the claim.",
            "folder": "Folder with its files.",
            "bytes": "Size of its files.",
            "created": "Time of creation.",
            "usedBy": "Pods that are using it.",
        },
    ),
    "Model": Kind(
        "A SavedModel that a job has exported, or that a folder contains.",
        ("models ls", "models show", "export"),
        {
            "job": "Unique name of the run, as in the field `id` of a Job; empty for a folder.",
            "namespace": "Namespace of the job; empty for a folder.",
            "model": "Name of the model: that of the folder with its versions.",
            "version": "Version; null if the folder of the SavedModel is not named with a number.",
            "step": "Training step; null if the program has not recorded it.",
            "signatures": "For each signature: name, method, inputs, outputs, request (a shell command that sends an"
            " example to REST). For each input and output: name, type, shape (null for an unknown size).",
            "bytes": "Size of its files.",
            "tensorflow": "Version of TensorFlow that wrote it.",
            "folder": "Folder of the SavedModel.",
            "problem": "What is missing of an incomplete SavedModel; empty if it is complete.",
        },
    ),
    "Prediction": Kind(
        "The outputs of a served model.",
        ("predict --json",),
        {
            "model": "Name of the model.",
            "signature": "Name of the signature.",
            "outputs": "Value of each output by name, as lists; for --data-dir, images (their number) and wrong (the"
            " number of errors).",
        },
    ),
    "RetryRule": Kind(
        "What happens when a replica ends, by restart policy.",
        ("explain restarts",),
        {
            "cause": "How the replica ends.",
            "never": "With restartPolicy Never.",
            "exitCode": "With restartPolicy ExitCode.",
            "inPlace": "With restartPolicy OnFailure or Always.",
            "counts": "Whether it counts against runPolicy.backoffLimit.",
        },
    ),
    "TfJobRetryRule": Kind(
        "What happens when a replica of a TfJob of tensorflow.org ends, by its type. `RetryRuleList` has these rules in"
        " `tfJobItems`.",
        ("explain restarts",),
        {
            "cause": "How the replica ends.",
            "master": "For a MASTER, or the replica that terminationPolicy.chief names.",
            "worker": "For a WORKER.",
            "ps": "For a PS.",
        },
    ),
    "KnownError": Kind(
        "A failure for which the verdict has advice.",
        ("explain errors",),
        {
            "name": "Short name of the failure.",
            "shows": "Text by which you recognize the failure.",
            "pattern": "Regular expression for the last 4096 characters of the log.",
            "exitCode": "Exit code that shows the failure without a match of the pattern; null if there is none.",
            "cause": "Why it happens.",
            "remedy": "What to do.",
        },
    ),
    "Doctor": Kind(
        "What this machine supports.",
        ("doctor",),
        {
            "level": "Isolation level of jobs: full, addresses or ports.",
            "capabilities": "Checks by name: title, ok, problem, fix.",
            "home": "The state folder.",
            "node": "The machine: name, cpus, memory in bytes.",
            "warmStart": "Whether programs that import TensorFlow can start warm with the interpreter of this folder:"
            " title, ok, problem, fix.",
            "forkServers": "Processes that warm replicas are forked from: pid, python, tensorflow, forked (number of"
            " replicas), users (number of runs), endsIn (seconds; null while in use).",
        },
    ),
    "ClusterDoctor": Kind(
        "What a cluster supports, and what you are allowed to do there.",
        ("doctor --on k8s",),
        {
            "context": "Context of the kubeconfig; empty in a pod.",
            "server": "Address of the API server.",
            "namespace": "Namespace whose permissions were checked.",
            "findings": "For each check: title, ok, problem, fix.",
        },
    ),
    "Version": Kind(
        "Versions of tfjob and of the components of a cluster. Unknown versions are empty, as are those of a cluster"
        " without --on k8s.",
        ("version",),
        {
            "tfjob": "Version of tfjob.",
            "python": "Version of Python.",
            "kubernetes": "Version of the cluster.",
            "oldest": "Oldest supported version of Kubernetes.",
            "crd": "Version of tfjob that the cluster's CRD belongs to.",
            "operator": "Visible operators: image, ready pods, namespace.",
            "skew": "Version mismatch in one sentence; empty if there is none.",
        },
    ),
}
