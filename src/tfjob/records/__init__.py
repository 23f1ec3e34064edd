"""What is kept on this machine of jobs of a cluster: the job as it was last seen, and the lines it printed.

In: jobs and lines of an attached run. Out: files, and a reader for them when the cluster has forgotten the job. Start
reading at `job_records`.
"""
