"""The rules about a job, one module each: what ends it, restarts it, suspends it or cleans it up.

In: facts. Out: one decision each, which `plan.plan` combines. Start reading at `restarts`, the largest; `success` and
`limits` are the simplest.
"""
