"""From a manifest or a script to running jobs, on this machine or on a cluster, as a library.

In: a `Request`. Out: `prepare` checks it and returns a `Prepared` with everything that would be created; `submit`
creates exactly that. Start reading at `request` and `prepare`, then `local` and `cluster`; `drive` and `follow` are
attached runs, and `watch` shows jobs that another process drives.

This package does not print: warnings are in the `Prepared`, and errors are exceptions with a message and a hint.
"""
