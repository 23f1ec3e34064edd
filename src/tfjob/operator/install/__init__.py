"""The operator's installation: install, upgrade, remove, take over from training-operator, and check a cluster.

In: a client and settings. Out: applied objects, or findings. Start reading at `installation`; `manifests` and `rbac`
make the objects.
"""
