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
    """Return the problems of a manifest or a script, and the names of what it runs.

    With `is_placed`, also those on its target. A script is always placed.
    """
    from tfjob.api.problems import InvalidManifest, in_order
    from tfjob.launch.request import load

    if is_placed and not request.target.cluster:
        from tfjob.launch import local

        request, _ = local.named(request)
    _, manifest = load(request)
    problems = list(manifest.problems)
    of_program: list[Problem] = []
    if (is_placed or request.is_program) and not manifest.errors:
        interpreter = None
        try:
            if request.target.cluster:
                from tfjob.launch import cluster

                problems += cluster.problems(request, manifest)
            else:
                from tfjob.launch import local
                from tfjob.launch.program import interpreter_of

                placed = local.place(request, manifest)
                problems += placed.problems
                interpreter = interpreter_of(placed, manifest.jobs[0]) if request.is_program else None
        except InvalidManifest as error:
            problems += error.problems
        if request.is_program:
            from tfjob.launch import program

            of_program = program.problems(request, manifest.jobs[0], interpreter)
    return [*in_order(problems), *of_program], [
        *(job.metadata.name for job in manifest.jobs),
        *(document.get("metadata", {}).get("name", "") for document, _ in manifest.deployments),
    ]
