"""What commands see of the runs of this machine.

In: the store and the logs. Out: the protocol of `jobs.backend`. Start reading at `backend`.
"""
