"""The decision about a TFJob. Pure: no I/O, no clock, no randomness.

In: a job, its observed children, the time, the operator's settings. Out: a `Plan`: the next status, actions, events,
and the time of the next pass. Start reading at `plan.plan`, which calls the policies in their order. `facts` describes
what exists, `policy` decides, `build` makes children, `record` is what the status records between passes, and `events`
has every reason and message.
"""
