"""From a pod to what a supervisor runs.

In: a pod and the machine. Out: `spec.json`, with commands, mounts, environment and addresses resolved. Start reading at
`assembly`; `machine` is what this machine can do, `network` gives replicas their addresses.
"""
