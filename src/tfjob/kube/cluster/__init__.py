"""An API server as the cluster of the controller.

In: caches and a client. Out: the protocol of `controller.cluster`. Start reading at `cluster`; `lease` elects a leader,
`event_log` writes events, and `tensorflow_org` holds everything specific to the 2017 TfJob.
"""
