"""`check --on k8s`: what a cluster would say to a manifest, at its place in the file."""

from __future__ import annotations

from tfjob.api.manifest.loader import Manifest
from tfjob.api.problems import Problem, path_parts
from tfjob.kube.submit.preflight import Preflight, object_problems
from tfjob.launch.cluster import OpenBackend, canonical
from tfjob.launch.starting import with_namespace


def cluster_problems(open_backend: OpenBackend, manifest: Manifest, namespace: str) -> list[Problem]:
    """Asks about every job and object; nothing is made."""
    found: list[Problem] = []
    with open_backend(namespace) as backend:
        for entry in manifest.entries:
            job = with_namespace(entry, canonical(entry.written), namespace, backend.namespace)
            preflight = Preflight(backend.client, job, manifest.objects)
            found += [entry.located(problem) for problem in backend.run(preflight.problems())]
        for part, document in zip(manifest.object_parts, manifest.objects, strict=True):
            problems = backend.run(object_problems(backend.client, document, namespace or backend.namespace))
            found += [part.located(problem, path_parts(problem.path)) for problem in problems]
    return found
