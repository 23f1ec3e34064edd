"""From a manifest or a script to running jobs, here or on a cluster.

In: a `Request` (module `starting`). Out: a `Launch` that shows what would start, or starts it. Start reading at
`starting`, then `local` and `cluster`. This package does not know the command line: errors are exceptions.
"""
