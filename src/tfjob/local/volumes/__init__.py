"""The volumes of pods on this machine: folders, claims, projected files, the job's own storage.

In: a pod. Out: mounts, and folders that exist. Start reading at `volumes`.
"""
