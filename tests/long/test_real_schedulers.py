"""Schedulers of others that drive our jobs: coscheduling of scheduler-plugins, and Kueue. The long form only.

They are built from their Go modules, minutes each: `python -m devcluster build coscheduling kueue` does it beforehand.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster import cluster
from devcluster.client import Client
from devcluster.cluster import NODE, Shape
from devcluster.images import BUSYBOX
from support.operating import operated_room
from support.room import Room, job, template
from support.running import wait_until
from support.schedulers import PATIENCE, SCHEDULER, coscheduling, run_kueue
from support.served import serve_tfjobs
from tfjob.api.resources import PODGROUPS

pytestmark = [pytest.mark.long, pytest.mark.root, pytest.mark.cluster, pytest.mark.node, pytest.mark.timeout(900)]

Object = dict[str, Any]
QUEUE = "kueue.x-k8s.io/queue-name"


@pytest.fixture(scope="module")
def ground(request: pytest.FixtureRequest) -> Iterator[Client]:
    """A cluster of this module's own, with one node."""
    if request.config.getoption("kubeconfig"):
        pytest.skip("changes the whole cluster")
    with cluster.shared(f"tests-schedulers-{os.getpid()}", Shape.of(NODE, 1)) as client:
        serve_tfjobs(client)
        yield client


def test_coscheduling_starts_a_gang_when_all_of_it_fits(ground: Client, tmp_path: Path) -> None:
    """As in v1.9's own end-to-end test: a gang of 10 is asked for and there are 2, so nobody starts until a patch asks
    for less."""
    with coscheduling(ground, tmp_path), operated_room(ground, f"--gang-scheduler-name={SCHEDULER}") as gangs:
        policy = {"schedulingPolicy": {"minAvailable": 10}}
        gangs.create(job("gang", run_policy=policy, worker={"replicas": 2, "template": shell("echo trained")}))
        pods = gangs.until_pods("gang", "worker-0", "worker-1")
        assert {pod["spec"]["schedulerName"] for pod in pods.values()} == {SCHEDULER}
        wait_until(lambda: refused(gangs) == 2, PATIENCE, lambda: f"{gangs.pods('gang')}")
        assert gangs.status("gang")["state"] == "Pending"
        assert gangs.get(PODGROUPS, "gang")["spec"]["minMember"] == 10
        gangs.edit("gang", runPolicy={"schedulingPolicy": {"minAvailable": 2}})
        gangs.until("gang", "Succeeded", timeout=PATIENCE)


def refused(gangs: Room) -> int:
    """How many pods the scheduler has looked at and left where they are."""
    conditions = [one for pod in gangs.pods("gang").values() for one in pod["status"].get("conditions", ())]
    return sum(one["type"] == "PodScheduled" and one["status"] == "False" for one in conditions)


def test_kueue_lets_a_job_start_when_its_queue_has_room(ground: Client, tmp_path: Path) -> None:
    """The second job waits, suspended by Kueue itself, until the first is done; both run where their flavor says."""
    run_kueue(ground, tmp_path)
    with operated_room(ground) as queued:
        ground.kubectl("label", "node", "--all", "flavor=small")
        ground.apply(*queues(queued.namespace))
        labels = {QUEUE: "team"}
        # Kueue sees no replicas whose type is spelt otherwise.
        first = job("first", Worker={"replicas": 2, "template": needing("until [ -e /tmp/go ]; do sleep 1; done")})
        second = job("second", Worker={"replicas": 2, "template": needing("echo trained")})
        queued.create({**first, "metadata": {"name": "first", "labels": labels}})
        queued.until("first", "Running", ready="2/2", timeout=PATIENCE)
        assert flavors(queued, "first") == {"small"}
        queued.create({**second, "metadata": {"name": "second", "labels": labels}})
        queued.until("second", "Suspended", timeout=PATIENCE)
        wait_until(lambda: conditions(ground, queued, "second").get("QuotaReserved") == "False", PATIENCE)
        assert queued.pods("second") == {}
        for number in range(2):
            ground.kubectl("exec", "-n", queued.namespace, f"first-worker-{number}", "--", "touch", "/tmp/go")
        queued.until("first", "Succeeded", timeout=PATIENCE)
        queued.until("second", "Succeeded", timeout=PATIENCE)
        assert flavors(queued, "second") == {"small"}
        wait_until(lambda: conditions(ground, queued, "second").get("Finished") == "True", PATIENCE)


def flavors(queued: Room, name: str) -> set[str]:
    """The kinds of nodes that the pods of a job ask for."""
    return {pod["spec"]["nodeSelector"]["flavor"] for pod in queued.pods(name).values()}


def conditions(client: Client, queued: Room, name: str) -> dict[str, str]:
    """The conditions of the Workload that Kueue made for a job: type and status."""
    found = client.get("workloads", "-n", queued.namespace)["items"]
    own = [one for one in found if one["metadata"]["ownerReferences"][0]["name"] == name]
    return {one["type"]: one["status"] for workload in own for one in workload.get("status", {}).get("conditions", ())}


def queues(namespace: str) -> list[Object]:
    """A queue with room for one of the jobs."""
    quota = {"name": "small", "resources": [{"name": "cpu", "nominalQuota": "200m"}]}
    spec = {
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}],
    }
    version = "kueue.x-k8s.io/v1beta1"
    local = {"name": "team", "namespace": namespace}
    return [
        kind(version, "ResourceFlavor", {"name": "small"}, {"nodeLabels": {"flavor": "small"}}),
        kind(version, "ClusterQueue", {"name": "all"}, spec),
        kind(version, "LocalQueue", local, {"clusterQueue": "all"}),
    ]


def kind(version: str, name: str, metadata: Object, spec: Object) -> Object:
    return {"apiVersion": version, "kind": name, "metadata": metadata, "spec": spec}


def shell(script: str, **container: Any) -> Object:
    """A template whose program is a line of shell."""
    own = {"image": BUSYBOX, "imagePullPolicy": "IfNotPresent", "command": ["sh", "-c", script]}
    return template(container={**own, **container}, terminationGracePeriodSeconds=2)


def needing(script: str) -> Object:
    """Half of what the queue has."""
    return shell(script, resources={"requests": {"cpu": "100m"}})
