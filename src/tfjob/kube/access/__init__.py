"""How to reach an API server: kubeconfig, credentials, TLS, proxies, and the errors that it answers with.

In: a context, or the environment of a pod. Out: an `Access`. Start reading at `config`.
"""
