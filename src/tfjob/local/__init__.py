"""This machine as a cluster: pods are supervised processes, state is one folder.

In: a submission (a job and its options). Out: a run: pods in their own namespaces where the machine allows it, logs,
claims, and a record that stays. Start reading at `jobs/submission`, then `run/driver` (one process drives a run),
`run/kubelet` (starts and stops pods), `pod/assembly` (from a pod to a specification) and `sandbox/pod_process`
(supervises one pod).
"""
