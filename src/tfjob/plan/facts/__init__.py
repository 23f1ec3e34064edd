"""Facts about a job and its pods, without any decision.

In: a job and its observed children. Out: tasks, gangs, attempts, the state of each task, conditions, TF_CONFIG. Start
reading at `tasks`.
"""
