"""Copies of the objects of a cluster, kept up to date by watches.

In: a client and a resource. Out: a store that calls back on every change. Start reading at `reflector`; `own_writes`
bridges the time until a cache shows our writes.
"""
