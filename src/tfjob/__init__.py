"""Distributed TensorFlow jobs from one TFJob manifest: processes on a laptop, pods on Kubernetes.

The rooms, from the bottom up: `api` (the contract), `plan` (the decision), `controller` (the loop), `jobs` (what people
see of jobs), `records` (what is kept of a run), `kube` and `local` (the two clusters), `operator`, `launch` (from a
manifest to running jobs) and `cli`. A room imports only rooms below it; the contracts in pyproject.toml check that.
Start reading at `api.types`, then `plan.plan` and `controller.controller`.
"""

__version__ = "0.1.0"
