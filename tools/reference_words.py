"""The descriptions in docs/reference; tools/reference.py combines them with names, types and defaults from the code."""

from __future__ import annotations

from tfjob.api.schema.descriptions import FIELDS as FIELDS

EXIT_CODES = {
    "SUCCEEDED": "success; for `run` and `wait`: the job succeeded",
    "FAILED": "the job failed, or did not reach the state of `wait --for`; for `doctor --on k8s` and"
    " `operator self-test`: a check failed",
    "BAD_INPUT": "the command line, the manifest or the configuration is invalid, or this machine does not support it;"
    " nothing was started",
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
    "spec.RuntimeId": "part of the names of all objects of the job; also `runtimeId`",
    "spec.replicaSpecs": "the replicas; also `replica_specs`",
    "spec.replicaSpecs[].IsDefaultPS": "set by the operator: whether these are standard parameter servers",
    "spec.replicaSpecs[].replicas": "number of replicas; 1 for a MASTER",
    "spec.replicaSpecs[].template": "a pod template with a container named `tensorflow`; a PS without a template is a"
    " standard parameter server",
    "spec.replicaSpecs[].tfPort": "the port of their Services and of the addresses in TF_CONFIG",
    "spec.replicaSpecs[].tfReplicaType": "`MASTER`, `WORKER` or `PS`",
    "spec.tensorboard": "a TensorBoard for the job, from its start until it is deleted",
    "spec.tensorboard.logDir": "the folder with the event files; required",
    "spec.tensorboard.serviceType": "type of its Service: `ClusterIP`, `LoadBalancer` or `NodePort`",
    "spec.tensorboard.volumes": "its volumes",
    "spec.tensorboard.volumeMounts": "where they are mounted",
    "spec.terminationPolicy": "which replica ends the job",
    "spec.terminationPolicy.chief": "the replica whose end is the end of the job",
    "spec.terminationPolicy.chief.replicaName": "its type",
    "spec.terminationPolicy.chief.replicaIndex": "its index",
    "spec.tfImage": "the image of standard parameter servers",
    "spec.schedulerName": "the scheduler of the pods",
}

ALPHA1_IN_V1 = {
    "spec.RuntimeId": "the annotation `tfjob/runtime-id`",
    "spec.replicaSpecs": "`spec.tfReplicaSpecs`, a map by type",
    "spec.replicaSpecs[].IsDefaultPS": "a PS without `template`",
    "spec.replicaSpecs[].replicas": "`spec.tfReplicaSpecs.TYPE.replicas`",
    "spec.replicaSpecs[].template": "`spec.tfReplicaSpecs.TYPE.template`, whose `restartPolicy` applies if the"
    " replica has none",
    "spec.replicaSpecs[].tfPort": "the port `tfjob-port` of the container; for a standard parameter server the"
    " annotation `tfjob/ps-port`",
    "spec.replicaSpecs[].tfReplicaType": "the key in `spec.tfReplicaSpecs`: `Master`, `Worker` or `PS`",
    "spec.tensorboard": "`spec.tensorBoard`",
    "spec.tensorboard.logDir": "`spec.tensorBoard.logDir`",
    "spec.tensorboard.serviceType": "`spec.tensorBoard.serviceType`",
    "spec.tensorboard.volumes": "`spec.tensorBoard.volumes`",
    "spec.tensorboard.volumeMounts": "`spec.tensorBoard.volumeMounts`",
    "spec.terminationPolicy": "`spec.terminationPolicy`, always written",
    "spec.terminationPolicy.chief": "`spec.terminationPolicy.chief`",
    "spec.terminationPolicy.chief.replicaName": "`spec.terminationPolicy.chief.replicaName`: `Master` and so on",
    "spec.terminationPolicy.chief.replicaIndex": "`spec.terminationPolicy.chief.replicaIndex`",
    "spec.tfImage": "`spec.tfImage`",
    "spec.schedulerName": "the `schedulerName` of every template that has none",
}

BETA_FIELDS = {"status.details": "the parts of the status that only v1 has"}

BATCH_FIELDS = {
    "spec.activeDeadlineSeconds": "fail the job if it runs longer than this number of seconds",
    "spec.backoffLimit": "number of failures that are retried",
    "spec.completionMode": "`NonIndexed`, or `Indexed`: each pod has its number in `JOB_COMPLETION_INDEX`",
    "spec.completions": "number of pods that must succeed; default: `parallelism`",
    "spec.managedBy": "ignored",
    "spec.parallelism": "number of pods that run at the same time",
    "spec.podReplacementPolicy": "ignored",
    "spec.selector": "set by Kubernetes; ignored",
    "spec.suspend": "end all pods, and create none until this is false again",
    "spec.template": "a pod template, with restartPolicy `Never` or `OnFailure`",
    "spec.ttlSecondsAfterFinished": "delete the job this number of seconds after its end; its local record stays",
}
