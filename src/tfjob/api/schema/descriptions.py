"""The description of every field of a TFJob, by its path, as docs/reference and `kubectl explain` show it."""

from __future__ import annotations

FIELDS = {
    "spec.tfReplicaSpecs": (
        "Replicas of the job, by type: `Chief`, `Master`, `Worker`, `PS` and `Evaluator`. Types are case-insensitive."
    ),
    "spec.tfReplicaSpecs.TYPE.replicas": "Number of replicas of this type. May be 0.",
    "spec.tfReplicaSpecs.TYPE.restartPolicy": (
        "When a replica restarts: `Never`, `ExitCode`, `OnFailure` or `Always`."
        " If unset, the `restartPolicy` of the template applies."
    ),
    "spec.tfReplicaSpecs.TYPE.template": (
        "Pod template of the replicas; fields that tfjob does not read are kept."
        " A `PS` without a template runs a standard TensorFlow server."
    ),
    "spec.runPolicy": "Limits of the job, and the cleanup after it.",
    "spec.runPolicy.cleanPodPolicy": (
        "Pods to delete when the job ends: `Running` (those that still run), `All` or `None`."
    ),
    "spec.runPolicy.ttlSecondsAfterFinished": (
        "Number of seconds after which a finished job is deleted. The record of a local run is kept."
    ),
    "spec.runPolicy.activeDeadlineSeconds": "Number of seconds that the job may run. A job that runs longer fails.",
    "spec.runPolicy.backoffLimit": (
        "Number of failures that are retried; a failure and its consequences count once. If unset, there is no limit."
    ),
    "spec.runPolicy.schedulingPolicy": "Settings for a gang scheduler. Local runs ignore them.",
    "spec.runPolicy.schedulingPolicy.minAvailable": (
        "Number of pods that must fit at once before any of them starts. Defaults to all pods of the job."
    ),
    "spec.runPolicy.schedulingPolicy.queue": "Queue of the scheduler. Cannot be changed after creation.",
    "spec.runPolicy.schedulingPolicy.minResources": (
        "Resources that must be free before any pod starts. Defaults to the sum of the pods' requests."
    ),
    "spec.runPolicy.schedulingPolicy.priorityClass": "Priority class of the whole job.",
    "spec.runPolicy.schedulingPolicy.scheduleTimeoutSeconds": (
        "Number of seconds that the scheduler may take to place the pods."
    ),
    "spec.runPolicy.suspend": "If true, all replicas stop, and none start until it is false again.",
    "spec.runPolicy.managedBy": (
        "Controller that manages the job: `kubeflow.org/training-operator` (the default) or"
        " `kueue.x-k8s.io/multikueue`."
    ),
    "spec.successPolicy": (
        "Workers that must succeed if the job has no chief or master: worker 0 if empty, all workers if `AllWorkers`."
    ),
    "spec.enableDynamicWorker": (
        "If true, the number of workers may change while the job runs. `TF_CONFIG` then lists only the worker itself"
        " and the parameter servers."
    ),
    "spec.restartScope": (
        "Replicas that restart together: `Task` (one alone), `Gang` (all except evaluators) or `Auto`."
        " `Auto` is `Task` with parameter servers or dynamic workers, otherwise `Gang`."
    ),
    "spec.tensorBoard": "TensorBoard that runs alongside the job until the job is deleted.",
    "spec.tensorBoard.logDir": (
        "Folder with the event files: a path in a mounted volume, or an `s3://` or `gs://` address."
    ),
    "spec.tensorBoard.image": "Image of TensorBoard. Defaults to the operator's setting.",
    "spec.tensorBoard.serviceType": (
        "Type of TensorBoard's Service: `ClusterIP` (the default), `NodePort` or `LoadBalancer`."
    ),
    "spec.tensorBoard.volumes": "Volumes that TensorBoard can mount.",
    "spec.tensorBoard.volumeMounts": "Mounts of these volumes in TensorBoard's container.",
    "spec.terminationPolicy": "Success rule of v1alpha1: the job ends when one chosen replica ends.",
    "spec.terminationPolicy.chief": "Replica that decides when the job ends.",
    "spec.terminationPolicy.chief.replicaName": "Type of this replica.",
    "spec.terminationPolicy.chief.replicaIndex": "Index of this replica.",
    "spec.tfImage": "Image of parameter servers that have no template.",
    "status.state": "State of the job: `Pending`, `Running`, `Restarting`, `Suspended`, `Succeeded` or `Failed`.",
    "status.reason": "Reason for the state, as one CamelCase word.",
    "status.message": "Reason for the state, as a sentence.",
    "status.ready": "Number of replicas that are up or have completed, out of all: `3/4`.",
    "status.restarts": "Number of restarts since the job was created.",
    "status.retries": "How much of `backoffLimit` the job has used.",
    "status.attempt": "Number of the current attempt of the job, counted from 1.",
    "status.observedGeneration": "Generation of the spec that this status describes.",
    "status.conditions": "Conditions of the job, as training-operator v1.9 reports them.",
    "status.conditions.type": (
        "Type of the condition: `Created`, `Running`, `Restarting`, `Suspended`, `Succeeded` or `Failed`."
    ),
    "status.conditions.status": "Status of the condition: `True` or `False`.",
    "status.conditions.reason": "Reason for the last change, as one word such as `TFJobRunning`.",
    "status.conditions.message": "Reason for the last change, as a sentence.",
    "status.conditions.lastUpdateTime": "Time when the condition was last written.",
    "status.conditions.lastTransitionTime": "Time when the status of the condition last changed.",
    "status.replicaStatuses": "Number of pods in each phase, by replica type.",
    "status.replicaStatuses.TYPE.active": "Number of pods that are running.",
    "status.replicaStatuses.TYPE.succeeded": "Number of pods that succeeded.",
    "status.replicaStatuses.TYPE.failed": "Number of pods that failed.",
    "status.started": (
        "Indexes of the replicas whose pod was seen in the current attempt, by type, as ranges such as `0-2,5`."
    ),
    "status.completedIndexes": (
        "Indexes of the replicas that exited with 0 in the current attempt, by type, as ranges such as `0-2,5`."
    ),
    "status.taskRestarts": (
        "Number of restarts of each replica on its own, by replica name. Restarts of the whole gang do not count."
    ),
    "status.oomKilled": "Names of the replicas whose last failure was an OOM kill.",
    "status.lastRestart": "The last restart.",
    "status.lastRestart.cause": "Verdict on the cause of the restart, with the fields of `status.failure`.",
    "status.lastRestart.scope": "What restarted: `Gang` or `Task`.",
    "status.lastRestart.counted": "Whether the restart counted against `backoffLimit`.",
    "status.lastRestart.streak": (
        "Number of earlier restarts of the replica that caused it. The count starts over after 10 minutes without one."
    ),
    "status.lastRestart.time": "Time when the restart was recorded.",
    "status.lastRestart.notBefore": "Earliest time when the replica that caused the restart may start.",
    "status.backOff": "Restart delays of replicas that restarted recently, by replica name. A gang has one, `gang`.",
    "status.backOff.TYPE.restarts": (
        "Number of restarts in a row. It is 0 for a replica that only waits for another replica."
    ),
    "status.backOff.TYPE.notBefore": "Earliest time when the replica may start.",
    "status.failure": "Verdict on why the job failed.",
    "status.failure.replica": "Name of the first replica that failed, such as `worker-0`.",
    "status.failure.attempt": "Attempt in which the replica failed.",
    "status.failure.exitCode": "Exit code of the replica.",
    "status.failure.signal": "Signal that ended the replica.",
    "status.failure.reason": "Reason for the failure, as one word such as `Error`, `OOMKilled` or `Evicted`.",
    "status.failure.message": "Reason for the failure, as a sentence.",
    "status.failure.lastLines": "Last lines of the replica's output: at most 20 lines and 4 KiB.",
    "status.failure.time": "Time when the replica failed.",
    "status.runtimeId": "Random part of the names of the children, for jobs of v1alpha1.",
    "status.cleaning": "Whether a finished job of v1alpha1 still has pods to delete.",
    "status.toldRestart": "End time of the container whose restart in place was last reported as an event.",
    "status.startTime": "Time when the job started or was last resumed.",
    "status.completionTime": "Time when the job ended.",
    "status.lastReconcileTime": (
        "Time when the job last began to wait for a PodGroup or for the cause of a failure (`Settling`)."
    ),
}
