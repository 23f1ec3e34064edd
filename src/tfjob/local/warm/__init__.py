"""Warm starts: pods forked from a process that has already imported TensorFlow.

In: an assembled pod. Out: its supervisor as a fork, or the reason for a cold start. Start reading at `start`; `policy`
decides which pods start warm, `pool` talks to the fork servers, `fork_server` and `program` run in them.
"""
