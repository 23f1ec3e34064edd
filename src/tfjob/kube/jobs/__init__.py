"""What commands see of the jobs of a cluster.

In: a client. Out: the protocol of `jobs.backend`: records, logs, events, exec, forwarded ports. Start reading at
`backend`.
"""
