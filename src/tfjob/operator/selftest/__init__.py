"""A small job that proves that an installed operator works.

In: a client and an image. Out: success, or the reason of the failure. Start reading at `self_test`; `rendezvous` is the
program of its replicas.
"""
