"""Submit or check requests, for this machine or a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfjob.api.problems import Problem
    from tfjob.jobs.backend import Record
    from tfjob.launch.request import Request

# The modules of both targets are imported when needed: importing the Python client must stay fast.


def submit(request: Request) -> list[Record]:
    if request.target.cluster:
        from tfjob.launch import cluster
        from tfjob.launch.target import open_cluster

        with open_cluster(request.target, request.namespace) as backend:
            return cluster.submit(backend, cluster.prepare(request)).records
    from tfjob.launch import local

    return [one.record for one in local.start(local.prepare(request))]


def check(request: Request, *, is_placed: bool = True) -> tuple[list[Problem], list[str]]:
    """Return the problems of a manifest, with those on its target if it `is_placed`, and the names of what it runs."""
    from tfjob.api.problems import InvalidManifest, in_order
    from tfjob.launch.request import load

    if is_placed and not request.target.cluster:
        from tfjob.launch import local

        request, _ = local.named(request)
    _, manifest = load(request)
    problems = list(manifest.problems)
    if is_placed and not manifest.errors:
        try:
            if request.target.cluster:
                from tfjob.launch import cluster

                problems += cluster.problems(request, manifest)
            else:
                from tfjob.launch import local

                problems += local.place(request, manifest).problems
        except InvalidManifest as error:
            problems += error.problems
    return in_order(problems), [
        *(job.metadata.name for job in manifest.jobs),
        *(document.get("metadata", {}).get("name", "") for document, _ in manifest.deployments),
    ]
