"""Resource usage of a job's pods; the test clusters have no metrics server."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Any

import pytest

from support.kube.api_server import Answer, ApiServer, refuse, reply
from support.plan.builders import job
from tfjob.jobs.backend import Usage
from tfjob.kube.access.errors import ApiError
from tfjob.kube.client.client import Client
from tfjob.kube.jobs.metrics import usage_by_pod

PATH = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods"


def metrics(name: str, *usages: dict[str, str]) -> dict[str, Any]:
    return {"metadata": {"name": name}, "containers": [{"name": "any", "usage": usage} for usage in usages]}


def asked(answer: Answer) -> tuple[Mapping[str, Usage] | None, list[str]]:
    async def main() -> tuple[Mapping[str, Usage] | None, list[str]]:
        async with ApiServer(lists=deque([answer]), otherwise=answer) as server, Client(server.access()) as client:
            found = await usage_by_pod(client, job(worker=2))
            return found, [f"{seen.path}?{seen.query.get('labelSelector')}" for seen in server.seen]

    return asyncio.run(main())


def test_the_containers_of_a_pod_are_summed_and_missing_numbers_stay_unknown() -> None:
    items = [
        metrics("mnist-worker-0", {"cpu": "1500m", "memory": "300Mi"}, {"cpu": "250000000n", "memory": "1024Ki"}),
        metrics("mnist-worker-1", {"memory": "5Mi"}),
        metrics("mnist-worker-2"),
    ]
    found, requests = asked(reply({"kind": "PodMetricsList", "metadata": {}, "items": items}))
    assert found == {
        "mnist-worker-0": Usage(1.75, 301 << 20),
        "mnist-worker-1": Usage(None, 5 << 20),
        "mnist-worker-2": Usage(None, None),
    }
    assert requests == [f"{PATH}?training.kubeflow.org/job-name=mnist"]


@pytest.mark.parametrize("answer", [refuse(404, "NotFound"), refuse(403, "Forbidden")])
def test_a_cluster_that_does_not_serve_them_is_asked_once(answer: Answer) -> None:
    found, requests = asked(answer)
    assert found is None
    assert len(requests) == 1


def test_a_metrics_server_that_is_down_is_an_error_that_may_pass() -> None:
    with pytest.raises(ApiError):
        asked(refuse(503, "ServiceUnavailable"))
