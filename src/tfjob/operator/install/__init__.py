"""The operator on a cluster: install, upgrade, remove, take over from training-operator, and examine.

In: a client and settings. Out: applied objects, or findings. Start reading at `installation`; `manifests` and `rbac`
make the objects.
"""
