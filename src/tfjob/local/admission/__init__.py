"""What this machine cannot run, reported before anything starts.

In: a job and the host. Out: problems with the paths of the fields. Start reading at `admission`.
"""
