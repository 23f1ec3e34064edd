"""Requests for either place: submit their jobs in the background, or only check them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfjob.api.problems import Problem
    from tfjob.jobs.backend import Record
    from tfjob.launch.request import Request

# The rooms of both places are loaded when they are needed: importing the Python client must stay quick.


def submit(request: Request) -> list[Record]:
    """Start every job of a request in the background."""
    if request.target.cluster:
        from tfjob.launch import cluster
        from tfjob.launch.target import open_cluster

        with open_cluster(request.target, request.namespace) as backend:
            return cluster.submit(backend, cluster.prepare(request)).records
    from tfjob.launch import local

    return [one.record for one in local.start(local.prepare(request))]


def problems(request: Request) -> list[Problem]:
    """Return what is wrong with a request, or odd about it; nothing is created."""
    from tfjob.api.problems import InvalidManifest
    from tfjob.launch import cluster, local
    from tfjob.launch.request import read_request
    from tfjob.launch.target import open_cluster

    try:
        prepared = cluster.prepare(request) if request.target.cluster else local.prepare(request)
    except InvalidManifest as error:
        return [*error.problems, *error.warnings]
    found = list(prepared.warnings)
    if request.target.cluster:
        with open_cluster(request.target, request.namespace) as backend:
            found += cluster.problems(backend, read_request(request)[1], request.namespace)
    return found
