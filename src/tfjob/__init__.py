"""Distributed TensorFlow jobs from one TFJob manifest: processes on a laptop, pods on Kubernetes.

    job = tfjob.Client().submit("mnist.yaml")
    job.wait()

`__all__` is the public API; everything else is private. The rooms, from the bottom up: `api` (the contract),
`controller` (the loop), `plan` (the decision about a TFJob), `jobs` (what people see of jobs), `records` (what is kept
of a run), `kube` and `local` (the two clusters), `operator`, `launch` (from a manifest to running jobs), `aio` and
`client`, and `cli`. A room imports only rooms below it; the contracts in pyproject.toml check that. Start reading at
`api.types`, then `plan.plan` and `controller.controller`.
"""

__version__ = "0.1.0"

_HOMES = {
    "tfjob.client": ("Client", "Job"),
    "tfjob.aio": ("JobFailed", "LogOptions", "Options", "Status"),
    "tfjob.api.problems": ("InvalidManifest", "Problem"),
    "tfjob.api.types": ("Verdict",),
    "tfjob.controller.actions": ("RecordedEvent",),
    "tfjob.jobs.backend": ("Line", "NotFound", "Replica"),
    "tfjob.jobs.scale": ("InvalidScale",),
    "tfjob.errors": ("InvalidRequest",),
    "tfjob.programs.tfjob_export": ("export",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = ["aio", *_HOME]


def __getattr__(name: str) -> object:
    """Load a public name when it is used: commands and supervisors start without them, and without importlib."""
    from importlib import import_module

    if name == "aio":
        return import_module("tfjob.aio")
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'tfjob' has no attribute {name!r}")
