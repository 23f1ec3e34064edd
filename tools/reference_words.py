"""The sentences of docs/reference; tools/reference.py adds them to what it finds in the code."""

from __future__ import annotations

from tfjob.api.schema.descriptions import FIELDS as FIELDS

EXIT_CODES = {
    "SUCCEEDED": "it worked; of `run` and `wait`: the job succeeded",
    "FAILED": "the job failed, or ended otherwise than `wait --for` asked",
    "BAD_INPUT": "the command line, the manifest, the configuration or this machine does not allow it; nothing started",
    "NOT_FOUND": "there is no such job, replica or claim",
    "TIMEOUT": "`wait --timeout` ran out",
    "BUG": "a fault in tfjob itself; `TFJOB_DEBUG=1` shows where",
    "INTERRUPTED": "Ctrl-C",
}

IMAGE_KEYS = {
    "python": "the interpreter: a path, or a name that is found on PATH; not together with `virtualenv`",
    "virtualenv": "the virtualenv to run in",
    "workdir": "the working folder, unless the container has a `workingDir`",
    "command": "what the image's ENTRYPOINT is; a container's `command` replaces it",
    "args": "what the image's CMD is; a container's `args` replace it",
    "env": "variables, below those of the manifest",
    "folders": "paths of the image, and the folder here that each one is",
}

LOCAL_KEYS = {
    "level": "`full`, `addresses`, `ports`, or `auto`: the best that works",
    "limits": "how resource limits are held: by `cgroup`, by `poll` (watching and killing), `off`, or `auto`",
    "log_max_bytes": "size at which a log file is rotated",
    "log_files": "how many files of an attempt are kept",
    "gpu": "true: requests for GPUs are accepted, and replicas see all GPUs of the machine",
    "warm": "whether replicas are forked from a process that has imported TensorFlow; unset: those that import it",
    "warm_idle": "seconds for which that process waits for the next run; 0: it ends with the run",
}

ENVIRONMENT = {
    "TFJOB_HOME": "the state folder: records, logs, claims, secrets; default `$XDG_STATE_HOME/tfjob`, else"
    " `~/.local/state/tfjob` (macOS: `~/.tfjob`)",
    "TFJOB_ON": "where commands look for jobs and run them when `--on` is not given: `local`, `k8s` or `k8s:CONTEXT`",
    "KUBECONFIG": "the files that describe clusters, for `--on k8s`; default `~/.kube/config`",
    "XDG_CONFIG_HOME": "where `tfjob/config.toml`, your own configuration, is; default `~/.config`",
    "NO_COLOR": "anything: no colours, in any command; `--no-color` does the same for one",
    "TFJOB_DEBUG": "`1`: a fault in tfjob itself shows its traceback",
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
    "spec.schedulerName": "`schedulerName` of every template that has none",
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
