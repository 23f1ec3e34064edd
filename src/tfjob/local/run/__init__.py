"""One run, from its start to its removal, for any kind.

In: an object. Out: a run that a driver process drives until it ends. Start reading at `lifetime`, then `driver` and
`kubelet`; `driver_lock` tells other processes whether a run has a driver. `deployments` and `services` do what
Kubernetes itself does on a cluster.
"""
