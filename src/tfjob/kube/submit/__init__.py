"""Create jobs on a cluster, or report why that would fail.

In: the jobs and objects of a manifest. Out: created objects, or problems. Start reading at `submission`.
"""
