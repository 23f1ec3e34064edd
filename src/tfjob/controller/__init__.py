"""The loop over owners of any kind, on a cluster or on this machine.

In: a `Cluster` (protocol in `cluster`) that names changed jobs and shows their children. Out: one status write and the
actions of the plan, per pass. Start reading at `controller.Controller`. It is level-triggered: every pass starts from
the present objects, so the process may be killed at any point.
"""
