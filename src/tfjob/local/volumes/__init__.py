"""The volumes of pods on this machine: folders, claims, projected files, the storage of jobs.

In: a pod. Out: mounts, and folders that exist. Start reading at `volumes`.
"""
