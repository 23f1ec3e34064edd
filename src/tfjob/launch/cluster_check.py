"""`check --on k8s`: what a cluster would say to a manifest, at its place in the file."""

from __future__ import annotations

from tfjob.api.manifest.loader import Manifest
from tfjob.api.problems import Problem, path_parts
from tfjob.kube.submit.preflight import Preflight, object_problems
from tfjob.launch.cluster import OpenConsole, canonical
from tfjob.launch.starting import placed


def cluster_problems(open_console: OpenConsole, manifest: Manifest, namespace: str) -> list[Problem]:
    """Asks about every job and object; nothing is made."""
    found: list[Problem] = []
    with open_console(namespace) as console:
        for entry in manifest.entries:
            job = placed(entry, canonical(entry.written), namespace, console.namespace)
            preflight = Preflight(console.client, job, manifest.objects)
            found += [entry.located(problem) for problem in console.run(preflight.problems())]
        for part, document in zip(manifest.object_parts, manifest.objects, strict=True):
            problems = console.run(object_problems(console.client, document, namespace or console.namespace))
            found += [part.located(problem, path_parts(problem.path)) for problem in problems]
    return found
