"""PodGroups on a real API server. No scheduler reads them here: this is about the objects, when they change and go."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from devcluster.client import Client
from support.operating import operating
from support.room import Room, job, room, template
from support.running import wait_until
from support.served import serve_tfjobs, served
from tfjob.api.resources import PODGROUPS, VOLCANO_PODGROUPS, Resource
from tfjob.api.types import TFJOBS

Object = dict[str, Any]
SMALL = template(container={"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}})
TASKS = ("chief-0", "worker-0", "worker-1")


def definition(resource: Resource, **spec: Object) -> Object:
    """The CRD of a PodGroup with the fields that its scheduler reads."""
    amounts = {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}}
    properties = {"minMember": {"type": "integer", "format": "int32"}, "minResources": amounts, **spec}
    status = {"type": "object", "properties": {"phase": {"type": "string"}}}
    schema = {"spec": {"type": "object", "properties": properties}, "status": status}
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": schema}},
    }
    names = {"plural": resource.plural, "kind": resource.kind, "singular": "podgroup"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {"group": resource.group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


PLUGINS_CRD = definition(PODGROUPS, scheduleTimeoutSeconds={"type": "integer", "format": "int32"})
VOLCANO_CRD = definition(VOLCANO_PODGROUPS, queue={"type": "string"}, priorityClassName={"type": "string"})


@contextmanager
def gangs(cluster: Client, crd: Object, scheduler: str) -> Iterator[Room]:
    """A namespace whose operator makes groups for a scheduler."""
    serve_tfjobs(cluster)
    cluster.apply(crd)
    wait_until(lambda: served(cluster, crd["metadata"]["name"]), 60)
    namespace = cluster.namespace()
    words = (f"--namespace={namespace}", f"--gang-scheduler-name={scheduler}")
    with operating(cluster.kubeconfig, *words), room(cluster.kubeconfig, namespace) as found:
        yield found
    cluster.delete_namespace(namespace)


@pytest.fixture(scope="module")
def plugins(control_plane: Client) -> Iterator[Room]:
    with gangs(control_plane, PLUGINS_CRD, "scheduler-plugins-scheduler") as found:
        yield found


@pytest.fixture(scope="module")
def volcano(control_plane: Client) -> Iterator[Room]:
    with gangs(control_plane, VOLCANO_CRD, "volcano") as found:
        yield found


def gang(name: str, **policy: Any) -> Object:
    replicas: Object = {"chief": {"template": SMALL}, "worker": {"replicas": 2, "template": SMALL}}
    return job(name, run_policy={"schedulingPolicy": policy}, **replicas)


def test_the_group_of_scheduler_plugins_is_made_before_its_pods(plugins: Room) -> None:
    plugins.create(gang("grouped", scheduleTimeoutSeconds=30))
    pods = plugins.until_pods("grouped", *TASKS)
    group = plugins.get(PODGROUPS, "grouped")
    assert group["spec"] == {
        "minMember": 3,
        "minResources": {"cpu": "1500m", "memory": "3Gi"},
        "scheduleTimeoutSeconds": 30,
    }
    (owner,) = group["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("TFJob", plugins.get(TFJOBS, "grouped")["metadata"]["uid"])
    for pod in pods.values():
        assert pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] == "grouped"
        assert pod["spec"]["schedulerName"] == "scheduler-plugins-scheduler"


def test_a_group_is_written_again_only_when_the_job_asks_for_something_else(plugins: Room) -> None:
    plugins.create(gang("changed"))
    plugins.all_run("changed", *TASKS)
    first = plugins.get(PODGROUPS, "changed")["metadata"]
    assert first["generation"] == 1
    uids = plugins.uids("changed")
    plugins.edit("changed", runPolicy={"schedulingPolicy": {"minAvailable": 2}})
    wait_until(lambda: plugins.get(PODGROUPS, "changed")["spec"]["minMember"] == 2, 60)
    second = plugins.get(PODGROUPS, "changed")["metadata"]
    assert (second["uid"], second["generation"]) == (first["uid"], 2)
    plugins.ends("changed-worker-1")
    plugins.until("changed", completedIndexes={"Worker": "1"})
    assert plugins.get(PODGROUPS, "changed")["metadata"]["resourceVersion"] == second["resourceVersion"]
    assert plugins.uids("changed") == uids


def test_the_group_goes_when_the_job_is_suspended_and_when_it_ends(plugins: Room) -> None:
    plugins.create(gang("leaving"))
    plugins.all_run("leaving", *TASKS)
    first = plugins.get(PODGROUPS, "leaving")["metadata"]["uid"]
    plugins.edit("leaving", runPolicy={"suspend": True})
    wait_until(lambda: plugins.find(PODGROUPS, "leaving") is None, 60)
    plugins.until_pods("leaving")
    plugins.edit("leaving", runPolicy={"suspend": False})
    plugins.all_run("leaving", *TASKS)
    assert plugins.get(PODGROUPS, "leaving")["metadata"]["uid"] != first
    plugins.ends("leaving-chief-0")
    plugins.until("leaving", "Succeeded")
    wait_until(lambda: plugins.find(PODGROUPS, "leaving") is None, 60)


def test_a_group_that_somebody_deletes_is_made_again(plugins: Room) -> None:
    plugins.create(gang("deleted"))
    plugins.all_run("deleted", *TASKS)
    uids, first = plugins.uids("deleted"), plugins.get(PODGROUPS, "deleted")["metadata"]["uid"]
    plugins.delete(PODGROUPS, "deleted")
    wait_until(lambda: is_another(plugins.find(PODGROUPS, "deleted"), first), 60)
    assert plugins.uids("deleted") == uids


def is_another(group: Object | None, uid: str) -> bool:
    return group is not None and group["metadata"]["uid"] != uid


def test_volcano_admits_a_group_before_its_pods_are_made(volcano: Room) -> None:
    volcano.create(gang("queued", queue="research", minAvailable=2, priorityClass="high"))
    status = volcano.until("queued", "Pending", reason="PodGroupPending")
    assert "lastReconcileTime" in status
    assert not volcano.pods("queued")
    wait_until(lambda: volcano.find(VOLCANO_PODGROUPS, "queued") is not None, 60)  # the status is written first
    group = volcano.get(VOLCANO_PODGROUPS, "queued")
    assert group["spec"] == {
        "minMember": 2,
        "minResources": {"cpu": "1", "memory": "2Gi"},
        "queue": "research",
        "priorityClassName": "high",
    }
    volcano.write_status("queued", {"phase": "Inqueue"}, VOLCANO_PODGROUPS)
    for name, pod in volcano.until_pods("queued", *TASKS).items():
        annotations = pod["metadata"]["annotations"]
        assert annotations["scheduling.k8s.io/group-name"] == "queued"
        assert annotations["volcano.sh/task-spec"] == name.partition("-")[0]
        assert pod["spec"]["schedulerName"] == "volcano"
    assert volcano.get(VOLCANO_PODGROUPS, "queued")["metadata"]["generation"] == 1
