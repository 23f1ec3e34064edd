"""What is true about a job and its pods now, without any decision.

In: a job and its observed children. Out: tasks, gangs, attempts, the state of each task, conditions, TF_CONFIG. Start
reading at `tasks`.
"""
