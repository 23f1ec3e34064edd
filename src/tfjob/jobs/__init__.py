"""What people see of jobs, the same for this machine and for a cluster. Used by the commands.

In: a `Backend` (protocol in `backend`), which finds, follows and changes jobs; commands use its synchronous form,
`sync_backend`. Out: records, replicas, log lines, reports, and the objects that `-o json` prints. Start reading at
`backend`.
"""
