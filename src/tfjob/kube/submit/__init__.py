"""The creation of jobs on a cluster, and what speaks against it.

In: the jobs and objects of a manifest. Out: created objects, or problems. Start reading at `submission`.
"""
