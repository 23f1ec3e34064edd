"""What is kept of a run on this machine: its job, its pods and their logs, in one format for both backends.

In: the folder of a run of this machine, or the lines of an attached run on a cluster. Out: files, and one reader for
them, also when the cluster has forgotten the job. Start reading at `pods` (the layout) and `log_reader`.
"""
