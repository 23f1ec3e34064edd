"""A Kubernetes API server, for the operator and for commands.

In: a kubeconfig or a service account. Out: `kube.cluster` is the cluster of the controller, `kube.jobs` is what
commands see of jobs, and `kube.submit` creates jobs. Below them are `cache` (watches), `client` (typed requests),
`http` (connections) and `access` (who we are and where the server is). Start reading at `client/client`.
"""
