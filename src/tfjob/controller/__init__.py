"""The loop over owners of any kind, which a cluster and this machine share.

In: a `Cluster` (protocol in `cluster`) that names changed owners and shows their children, and the kinds (`kind`) that
decide. Out: one status write and the actions of the plan, per pass. Start reading at `controller.Controller`. It is
level-triggered: every pass starts from what exists, so the process may be killed at any point.
"""
