"""One run, from its start to its removal, for any kind.

In: an object. Out: a run that a driver process drives until it ends. Start reading at `lifetime`, then `driver` and
`kubelet`; `driver_lock` says from outside whether a run is driven. `deployments` and `services` are what a cluster has
of its own.
"""
