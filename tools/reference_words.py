"""Descriptions for docs/reference; tools/reference.py adds them to the names, types and defaults of the code."""

from __future__ import annotations

from tfjob.api.schema.descriptions import FIELDS as FIELDS

EXIT_CODES = {
    "SUCCEEDED": "success; for `run` and `wait`: the job succeeded",
    "FAILED": "the job failed, or did not reach the state of `wait --for`; for `doctor --on k8s` and"
    " `operator self-test`: a check failed",
    "BAD_INPUT": "the command line, the manifest or the configuration is invalid, this machine does not support it, a"
    " file cannot be read or written, or the cluster does not answer or rejects the request; the message says which",
    "NOT_FOUND": "the job, replica or claim does not exist",
    "TIMEOUT": "`--timeout` expired",
    "BUG": "an internal error (a bug in tfjob); `TFJOB_DEBUG=1` prints the traceback",
    "INTERRUPTED": "interrupted by Ctrl-C",
}

IMAGE_KEYS = {
    "python": "the interpreter: a path, or a name to look up in PATH; cannot be combined with `virtualenv`",
    "virtualenv": "the virtualenv to run in",
    "workdir": "the working folder, unless the container has a `workingDir`",
    "command": "the ENTRYPOINT of the image; the `command` of a container overrides it",
    "args": "the CMD of the image; the `args` of a container override it",
    "env": "environment variables; the manifest overrides them",
    "folders": "paths in the image, and the folder on this machine to use for each",
}

LOCAL_KEYS = {
    "level": "isolation level: `full`, `addresses`, `ports`, or `auto` for the best that works",
    "limits": "how resource limits are enforced: `cgroup`, `poll` (measure and kill), `off`, or `auto`",
    "log_max_bytes": "size at which a log file is rotated",
    "log_files": "number of log files to keep per attempt",
    "gpu": "true: accept requests for GPUs, and let replicas see all GPUs of the machine",
    "warm": "whether to fork replicas from a process with TensorFlow loaded; default: only those that import it",
    "warm_idle": "seconds that this process waits for the next run; 0: it ends with the run",
}

ENVIRONMENT = {
    "TFJOB_HOME": "the state folder: records, logs, claims, secrets; default `$XDG_STATE_HOME/tfjob`, else"
    " `~/.local/state/tfjob` (macOS: `~/.tfjob`)",
    "TFJOB_ON": "the default of `--on`: `local`, `k8s` or `k8s:CONTEXT`",
    "KUBECONFIG": "the kubeconfig files for `--on k8s`; default `~/.kube/config`",
    "XDG_CONFIG_HOME": "the folder of `tfjob/config.toml`, your user configuration; default `~/.config`",
    "NO_COLOR": "any value: print without colors; `--no-color` does this for one command",
    "TFJOB_DEBUG": "`1`: print the traceback of an internal error",
}

RANDOM_ID = "4 random letters and digits"

ALPHA1_FIELDS = {
    "spec.RuntimeId": "Part of the names of all children of the job. May also be spelled `runtimeId`.",
    "spec.replicaSpecs": "Replicas of the job, one entry for each type. May also be spelled `replica_specs`.",
    "spec.replicaSpecs[].IsDefaultPS": "Whether these are default parameter servers. Written by the operator.",
    "spec.replicaSpecs[].replicas": "Number of replicas of this type. A `MASTER` has one.",
    "spec.replicaSpecs[].template": "Pod template with a container named `tensorflow`. A `PS` without a template is a"
    " default parameter server.",
    "spec.replicaSpecs[].tfPort": "Port of the replicas' Services, and of the addresses in `TF_CONFIG`.",
    "spec.replicaSpecs[].tfReplicaType": "Type of the replicas: `MASTER`, `WORKER` or `PS`.",
    "spec.tensorboard": "TensorBoard that runs alongside the job until the job is deleted.",
    "spec.tensorboard.logDir": "Folder with the event files. Required.",
    "spec.tensorboard.serviceType": "Type of TensorBoard's Service: `ClusterIP`, `LoadBalancer` or `NodePort`.",
    "spec.tensorboard.volumes": "Volumes that TensorBoard can mount.",
    "spec.tensorboard.volumeMounts": "Mounts of these volumes in TensorBoard's container.",
    "spec.terminationPolicy": "Success rule: the job ends when one chosen replica ends.",
    "spec.terminationPolicy.chief": "Replica that decides when the job ends.",
    "spec.terminationPolicy.chief.replicaName": "Type of this replica.",
    "spec.terminationPolicy.chief.replicaIndex": "Index of this replica.",
    "spec.tfImage": "Image of default parameter servers.",
    "spec.schedulerName": "Scheduler of the pods.",
}

ALPHA1_IN_V1 = {
    "spec.RuntimeId": "the annotation `tfjob/runtime-id`",
    "spec.replicaSpecs": "`spec.tfReplicaSpecs`, a map by type",
    "spec.replicaSpecs[].IsDefaultPS": "a `PS` without `template`",
    "spec.replicaSpecs[].replicas": "`spec.tfReplicaSpecs.TYPE.replicas`",
    "spec.replicaSpecs[].template": "`spec.tfReplicaSpecs.TYPE.template`; its `restartPolicy` applies if the replica"
    " has none",
    "spec.replicaSpecs[].tfPort": "the port `tfjob-port` of the container; for a default parameter server the"
    " annotation `tfjob/ps-port`",
    "spec.replicaSpecs[].tfReplicaType": "the key in `spec.tfReplicaSpecs`: `Master`, `Worker` or `PS`",
    "spec.tensorboard": "`spec.tensorBoard`",
    "spec.tensorboard.logDir": "`spec.tensorBoard.logDir`",
    "spec.tensorboard.serviceType": "`spec.tensorBoard.serviceType`",
    "spec.tensorboard.volumes": "`spec.tensorBoard.volumes`",
    "spec.tensorboard.volumeMounts": "`spec.tensorBoard.volumeMounts`",
    "spec.terminationPolicy": "`spec.terminationPolicy`, always written",
    "spec.terminationPolicy.chief": "`spec.terminationPolicy.chief`",
    "spec.terminationPolicy.chief.replicaName": "`spec.terminationPolicy.chief.replicaName`, spelled `Master`,"
    " `Worker` or `PS`",
    "spec.terminationPolicy.chief.replicaIndex": "`spec.terminationPolicy.chief.replicaIndex`",
    "spec.tfImage": "`spec.tfImage`",
    "spec.schedulerName": "the `schedulerName` of every template that has none",
}

BETA_FIELDS = {"status.details": "Status fields that only v1 has."}

BATCH_FIELDS = {
    "spec.activeDeadlineSeconds": "Number of seconds that the job may run. A job that runs longer fails.",
    "spec.backoffLimit": "Number of failures that are retried.",
    "spec.completionMode": "`NonIndexed`, or `Indexed` to pass each pod its number in `JOB_COMPLETION_INDEX`.",
    "spec.completions": "Number of pods that must succeed. Defaults to `parallelism`.",
    "spec.managedBy": "Ignored.",
    "spec.parallelism": "Number of pods that run at once.",
    "spec.podReplacementPolicy": "Ignored.",
    "spec.selector": "Written by Kubernetes. Ignored.",
    "spec.suspend": "If true, all pods stop, and none start until it is false again.",
    "spec.template": "Pod template with the restartPolicy `Never` or `OnFailure`.",
    "spec.ttlSecondsAfterFinished": "Number of seconds after which a finished job is deleted. The record of a local run"
    " is kept.",
}
