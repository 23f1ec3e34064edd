"""The rules for a job, one module each: when it ends, restarts or is suspended, and how it is cleaned up.

In: facts. Out: one decision each, which `plan.plan` combines. Start reading at `restarts`, the largest; `success` and
`run_policy` are the simplest.
"""
