"""What users see of jobs, on this machine and on a cluster; used by the commands and the Python client.

In: a `Backend` (protocol in `backend`), which finds, follows and changes jobs; commands use its synchronous form,
`sync_backend`. Out: records, replicas, log lines, reports, and the objects that `-o json` prints. Start reading at
`backend`.
"""
