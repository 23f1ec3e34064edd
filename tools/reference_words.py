"""The sentences of docs/reference; tools/reference.py puts them beside what it finds in the code."""

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
    "spec.RuntimeId": "part of the names of everything that the job makes; `runtimeId` too",
    "spec.replicaSpecs": "the replicas; `replica_specs` too",
    "spec.replicaSpecs[].IsDefaultPS": "written by the operator: whether these are standard parameter servers",
    "spec.replicaSpecs[].replicas": "how many; of a MASTER one",
    "spec.replicaSpecs[].template": "a pod template with a container named `tensorflow`; PS without one are standard"
    " parameter servers",
    "spec.replicaSpecs[].tfPort": "the port of their Services, and of the addresses in TF_CONFIG",
    "spec.replicaSpecs[].tfReplicaType": "`MASTER`, `WORKER` or `PS`",
    "spec.tensorboard": "a TensorBoard beside the job, from its start until it is deleted",
    "spec.tensorboard.logDir": "where it looks for event files; required",
    "spec.tensorboard.serviceType": "type of its Service: `ClusterIP`, `LoadBalancer` or `NodePort`",
    "spec.tensorboard.volumes": "its volumes",
    "spec.tensorboard.volumeMounts": "where they are mounted",
    "spec.terminationPolicy": "whose end is the job's end",
    "spec.terminationPolicy.chief": "that replica",
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
    "spec.replicaSpecs[].template": "`spec.tfReplicaSpecs.TYPE.template`, whose `restartPolicy` counts where the"
    " replica has none",
    "spec.replicaSpecs[].tfPort": "the port `tfjob-port` of the container; of a standard parameter server the"
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
    "spec.schedulerName": "`schedulerName` of every template that has none",
}

BETA_FIELDS = {"status.details": "what only v1 says of the status"}

BATCH_FIELDS = {
    "spec.activeDeadlineSeconds": "fail the job when it runs longer than so many seconds",
    "spec.backoffLimit": "how many failures are tried again",
    "spec.completionMode": "`NonIndexed`, or `Indexed`: each pod finds its number in `JOB_COMPLETION_INDEX`",
    "spec.completions": "how many pods must succeed; unset: as many as `parallelism`",
    "spec.managedBy": "not read",
    "spec.parallelism": "how many pods run at once",
    "spec.podReplacementPolicy": "not read",
    "spec.selector": "written by Kubernetes; not read",
    "spec.suspend": "end all pods and make none until it is false again",
    "spec.template": "a pod template, with restartPolicy `Never` or `OnFailure`",
    "spec.ttlSecondsAfterFinished": "remove the job so many seconds after its end; a local record stays",
}
