"""The children of a job: pods, Services, ConfigMaps, PodGroups, the Deployment of a TensorBoard.

In: a job, a task and the operator's settings. Out: objects to create. Start reading at `pods`.
"""
