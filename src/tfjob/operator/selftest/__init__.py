"""A small job that tests an installed operator.

In: a client and an image. Out: success, or the reason of the failure. Start reading at `self_test`; `rendezvous` is the
program that the replicas run.
"""
