"""Typed requests to an API server: get, list, watch, create, patch, delete, with retries.

In: a `Resource` and objects. Out: decoded objects, or an error of `kube.access.errors`. Start reading at `client`.
"""
