"""What this machine keeps: the state folder, the database of jobs and pods, addresses, configuration.

In: `TFJOB_HOME` and `tfjob.toml`. Out: a `Store` with runs, children and events. Start reading at `store`.
"""
