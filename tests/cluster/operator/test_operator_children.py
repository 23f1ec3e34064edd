"""The life of a job on a real API server as users, dashboards and v1.9's clients see it."""

from __future__ import annotations

import json
from typing import Any

from devcluster.client import Client
from support.cluster_golden import check_cluster_golden
from support.room import Room, job, template
from tfjob.api.types import TFJOBS

Object = dict[str, Any]
LABEL = "training.kubeflow.org"


def test_the_pods_and_services_are_those_of_v1_9(team: Room) -> None:
    worker = {
        "replicas": 2,
        "restartPolicy": "ExitCode",
        "template": template(
            metadata={"labels": {"team": "vision"}, "annotations": {"note": "kept"}},
            container={"ports": [{"name": "tfjob-port", "containerPort": 2222}, {"name": "web", "containerPort": 80}]},
        ),
    }
    team.create(job("shape", chief=1, ps=1, worker=worker))
    pods = team.until_pods("shape", "chief-0", "ps-0", "worker-0", "worker-1")
    team.until("shape", "Pending", ready="0/4", reason="Unschedulable")
    services = team.services("shape")
    assert set(services) == set(pods)
    owner = team.get(TFJOBS, "shape")["metadata"]["uid"]
    for name, child in [*pods.items(), *services.items()]:
        assert child["metadata"]["ownerReferences"] == [
            {
                "apiVersion": "kubeflow.org/v1",
                "kind": "TFJob",
                "name": "shape",
                "uid": owner,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ], name
    labels = {
        f"{LABEL}/job-name": "shape",
        f"{LABEL}/operator-name": "tfjob-controller",
        f"{LABEL}/replica-type": "worker",
        f"{LABEL}/replica-index": "1",
    }
    assert pods["worker-1"]["metadata"]["labels"] == {"team": "vision", **labels}
    assert pods["worker-1"]["metadata"]["annotations"].items() >= {"note": "kept"}.items()
    assert [name for name, pod in pods.items() if f"{LABEL}/job-role" in pod["metadata"]["labels"]] == ["chief-0"]
    service = services["worker-1"]
    assert service["metadata"]["labels"] == labels == service["spec"]["selector"]
    assert service["spec"]["clusterIP"] == "None"
    assert {port["name"]: port["port"] for port in service["spec"]["ports"]} == {"tfjob-port": 2222, "web": 80}
    assert [port["name"] for port in services["ps-0"]["spec"]["ports"]] == ["tfjob-port"]
    assert pods["worker-1"]["spec"]["restartPolicy"] == "Never"


def test_tf_config_names_the_services_and_leaves_the_evaluator_out(team: Room) -> None:
    team.create(job("config", chief=1, evaluator=1, ps=1, worker=2))
    pods = team.until_pods("config", "chief-0", "evaluator-0", "ps-0", "worker-0", "worker-1")

    def hosts(kind: str, count: int) -> list[str]:
        return [f"config-{kind}-{index}.{team.namespace}.svc:2222" for index in range(count)]

    cluster = {"chief": hosts("chief", 1), "ps": hosts("ps", 1), "worker": hosts("worker", 2)}
    task = {"type": "worker", "index": 1}
    assert tf_config(pods["worker-1"]) == {"cluster": cluster, "task": task, "environment": "cloud"}
    assert tf_config(pods["evaluator-0"])["cluster"] == {**cluster, "evaluator": hosts("evaluator", 1)}
    team.create(job("alone", worker=1))
    assert tf_config(team.until_pods("alone", "worker-0")["worker-0"]) == {}


def tf_config(pod: Object) -> Any:
    """The TF_CONFIG of a pod, decoded; nothing if it has none."""
    (container,) = pod["spec"]["containers"]
    values = [entry["value"] for entry in container.get("env") or () if entry["name"] == "TF_CONFIG"]
    return json.loads(values[0]) if values else {}


def test_conditions_counts_and_columns_follow_a_job_to_its_end(team: Room, control_plane: Client) -> None:
    team.create(job("story", chief=1, worker=2))
    team.until("story", "Pending")
    team.all_run("story", "chief-0", "worker-0", "worker-1")
    status = team.status("story")
    assert listed(status) == [("Created", "True", "TFJobCreated"), ("Running", "True", "TFJobRunning")]
    assert status["replicaStatuses"] == {"Chief": {"active": 1}, "Worker": {"active": 2}}
    assert row(control_plane, team, "story") == {"STATE": "Running", "READY": "3/3", "RESTARTS": "0"}

    team.ends("story-worker-1")
    team.until_status("story", lambda status: status["replicaStatuses"].get("Worker") == {"active": 1, "succeeded": 1})
    team.ends("story-chief-0")
    status = team.until("story", "Succeeded")
    assert listed(status) == [
        ("Created", "True", "TFJobCreated"),
        ("Running", "False", "TFJobRunning"),
        ("Succeeded", "True", "TFJobSucceeded"),
    ]
    check_cluster_golden("operator-succeeded", status["message"])
    assert status["replicaStatuses"] == {"Chief": {"succeeded": 1}, "Worker": {"succeeded": 2}}
    assert status["startTime"] <= status["completionTime"]
    assert status["observedGeneration"] == team.get(TFJOBS, "story")["metadata"]["generation"]
    assert row(control_plane, team, "story")["STATE"] == "Succeeded"

    for reason in ("TFJobSucceeded", "SuccessfulDeletePod", "SuccessfulDeleteService"):
        team.until_event("story", reason)
    reasons = [event["reason"] for event in team.events("story")]
    assert set(reasons) == {
        "SuccessfulCreatePod",
        "SuccessfulCreateService",
        "SuccessfulDeletePod",
        "SuccessfulDeleteService",
        "TFJobSucceeded",
    }
    described = control_plane.kubectl("describe", "tfjob", "story", "-n", team.namespace)
    lines = [line for line in described.splitlines() if "SuccessfulCreatePod" in line]
    created = "\n".join(lines)
    for words in ("Normal", "tfjob-controller", "Created pod", "story-chief-0", "story-worker-0", "story-worker-1"):
        assert words in created


def listed(status: Object) -> list[tuple[str, str, str]]:
    """The conditions of a status in short, in their order."""
    return [(one["type"], one["status"], one["reason"]) for one in status["conditions"]]


def row(cluster: Client, team: Room, name: str) -> dict[str, str]:
    """The first columns that `kubectl get` shows of a job; none of them may be empty."""
    titles, line = cluster.kubectl("get", "tfj", name, "-n", team.namespace).splitlines()
    return {title: line[titles.index(title) :].split()[0] for title in ("STATE", "READY", "RESTARTS")}


def test_a_job_goes_with_all_that_belongs_to_it(team: Room, control_plane: Client) -> None:
    team.create(job("gone", worker=2))
    team.until_pods("gone", "worker-0", "worker-1")
    control_plane.kubectl("delete", "tfjob", "gone", "-n", team.namespace, "--wait=false")
    team.until_pods("gone")
    assert team.find(TFJOBS, "gone") is None
