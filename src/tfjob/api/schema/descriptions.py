"""The description of every field of a TFJob, as docs/reference and `kubectl explain` show it."""

from __future__ import annotations

_DESCRIPTIONS = {
    "spec": {
        "tfReplicaSpecs": "Replicas by type: `Chief`, `Master`, `Worker`, `PS` and `Evaluator`,"
        " in upper or lower case.",
        "runPolicy": "Limits of the job, and the cleanup after it.",
        "successPolicy": "Workers that must succeed if there is no chief or master: worker 0 if empty, all if "
        "`AllWorkers`.",
        "enableDynamicWorker": "If true, the number of workers may change while the job runs."
        " `TF_CONFIG` then lists only the worker itself and the parameter servers.",
        "restartScope": "Replicas that restart together: `Task` (one alone), `Gang` (all except evaluators) or `Auto`. "
        "`Auto` is `Task` with parameter servers or dynamic workers, otherwise `Gang`.",
        "tensorBoard": "TensorBoard that runs alongside the job until the job is deleted.",
        "terminationPolicy": "Success rule of v1alpha1: the job ends when one chosen replica ends.",
        "tfImage": "Image of parameter servers that have no template.",
    },
    "spec.tfReplicaSpecs.TYPE": {
        "replicas": "Number of replicas of this type. May be 0.",
        "restartPolicy": "Restart policy: `Never`, `ExitCode`, `OnFailure` or `Always`."
        " Default: that of the template, otherwise `Never`.",
        "template": "Pod template; fields that tfjob does not read are kept."
        " A `PS` without a template runs a standard TensorFlow server.",
    },
    "spec.runPolicy": {
        "cleanPodPolicy": "Pods to delete when the job ends: `Running` (those that still run), `All` or `None`.",
        "ttlSecondsAfterFinished": "Seconds after which a finished job is deleted. The record of a local run is kept.",
        "activeDeadlineSeconds": "Seconds that the job may run. A job that runs longer fails.",
        "backoffLimit": "Number of failures that are retried; consequences of a failure do not count."
        " Unlimited if unset.",
        "schedulingPolicy": "Settings for a gang scheduler. Local runs ignore them.",
        "suspend": "If true, all replicas stop, and none start until it is false again.",
        "managedBy": "Controller of the job: `kubeflow.org/training-operator` (default) or "
        "`kueue.x-k8s.io/multikueue`.",
        "evaluatorGraceSeconds": "Seconds that a running evaluator may take to finish after the training has succeeded."
        " Default: 120. `cleanPodPolicy: All` ends it at once.",
    },
    "spec.runPolicy.schedulingPolicy": {
        "minAvailable": "Number of pods that must fit before any pod starts. Defaults to all pods of the job.",
        "queue": "Queue of the scheduler. Cannot be changed after creation.",
        "minResources": "Resources that must be free before any pod starts. Defaults to the requests of the pods.",
        "priorityClass": "Priority class of the whole job.",
        "scheduleTimeoutSeconds": "Seconds that the scheduler may take to place the pods.",
    },
    "spec.tensorBoard": {
        "logDir": "Folder with the event files: a path in a mounted volume, or an `s3://` or `gs://` address.",
        "image": "Image of TensorBoard. Defaults to the operator's setting.",
        "serviceType": "Type of TensorBoard's Service: `ClusterIP` (default), `NodePort` or `LoadBalancer`.",
        "volumes": "Volumes that TensorBoard can mount.",
        "volumeMounts": "Mounts of these volumes in TensorBoard's container.",
    },
    "spec.terminationPolicy": {"chief": "Replica that decides when the job ends."},
    "spec.terminationPolicy.chief": {
        "replicaName": "Type of this replica.",
        "replicaIndex": "Index of this replica.",
    },
    "status": {
        "state": "`Pending`, `Running`, `Restarting`, `Suspended`, `Succeeded` or `Failed`.",
        "reason": "Reason for the state, as one CamelCase word.",
        "message": "Reason for the state, as a sentence.",
        "ready": "Number of replicas that are up or have completed, out of all: `3/4`.",
        "restarts": "Number of restarts since the job was created.",
        "retries": "How much of `backoffLimit` the job has used.",
        "attempt": "Number of the current attempt of the job, counted from 1.",
        "observedGeneration": "Generation of the spec that this status describes.",
        "conditions": "Conditions of the job, as training-operator v1.9 reports them.",
        "replicaStatuses": "Number of pods in each phase, by replica type.",
        "started": "Indexes of the replicas whose pod was seen in this attempt, by type, as ranges: `0-2,5`.",
        "completedIndexes": "Indexes of the replicas that exited with 0 in this attempt, by type, as ranges: `0-2,5`.",
        "taskRestarts": "Number of restarts of each replica alone, by replica name. Restarts of a gang do not count.",
        "oomKilled": "Names of the replicas whose last failure was an OOM kill.",
        "lastRestart": "The last restart.",
        "backOff": "Restart delays of replicas that restarted recently, by replica name. A gang has one, `gang`.",
        "failure": "Verdict on why the job failed.",
        "runtimeId": "Random part of the names of the children, for jobs of v1alpha1.",
        "cleaning": "Whether a finished job of v1alpha1 still has pods to delete.",
        "toldRestart": "End time of the container whose restart in place was last reported in an event.",
        "startTime": "Time when the job started or was last resumed.",
        "completionTime": "Time when the job ended.",
        "lastReconcileTime": "Time when the job last began to wait for a PodGroup or for the cause of a failure.",
    },
    "status.conditions[]": {
        "type": "`Created`, `Running`, `Restarting`, `Suspended`, `Succeeded` or `Failed`.",
        "status": "`True` or `False`.",
        "reason": "Reason for the last change, as one word such as `TFJobRunning`.",
        "message": "Reason for the last change, as a sentence.",
        "lastUpdateTime": "Time when the condition was last written.",
        "lastTransitionTime": "Time when the status of the condition last changed.",
    },
    "status.replicaStatuses.TYPE": {
        "active": "Number of pods that are running.",
        "succeeded": "Number of pods that succeeded.",
        "failed": "Number of pods that failed.",
    },
    "status.lastRestart": {
        "cause": "Verdict on the cause of the restart, with the fields of `status.failure`.",
        "scope": "What restarted: `Gang` or `Task`.",
        "counted": "Whether the restart counted against `backoffLimit`.",
        "streak": "Number of earlier restarts of the replica that caused it. Reset after 10 minutes without one.",
        "time": "Time when the restart was recorded.",
        "notBefore": "Earliest time when the replica that caused the restart may start.",
    },
    "status.backOff.TYPE": {
        "restarts": "Number of restarts in a row. 0 if the replica only waits for another replica.",
        "notBefore": "Earliest time when the replica may start.",
    },
    "status.failure": {
        "replica": "Name of the first replica that failed, such as `worker-0`.",
        "attempt": "Attempt in which the replica failed.",
        "exitCode": "Exit code of the replica.",
        "signal": "Signal that ended the replica.",
        "reason": "Reason for the failure, as one word such as `Error`, `OOMKilled` or `Evicted`.",
        "message": "Reason for the failure, as a sentence.",
        "advice": "Cause and remedy, if the failure is one that `tfjob explain errors` lists.",
        "lastLines": "Last lines of the replica's output, at most 20 lines and 4 KiB. For a Python traceback, only the"
        " program's last frame and the exception.",
        "time": "Time when the replica failed.",
    },
}

FIELDS = {f"{path}.{name}": text for path, fields in _DESCRIPTIONS.items() for name, text in fields.items()}
"""By path: `spec.runPolicy.suspend`."""
