"""What runs a pod. Standard library only: it starts without site-packages, in about 50 ms.

In: a pod's folder with `spec.json`, and secrets through a pipe. Out: processes, logs, and the status of the pod as
files. Start reading at `pod_process`, the supervisor: one process for each pod, one poll loop. `pod_spec` describes the
files, `supervisor` is the view from outside.
"""
