"""The records of runs on this machine: jobs, their pods and logs, in one format for both backends.

In: the folder of a local run, or the lines of an attached run on a cluster. Out: files, and one reader for them, which
also works when the cluster no longer has the job. Start reading at `pods` (the layout) and `log_reader`.
"""
