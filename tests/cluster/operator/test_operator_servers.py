"""Default parameter servers on a real API server: their ConfigMap, and how it is kept."""

from __future__ import annotations

from typing import Any

from support.room import Room, job
from support.running import wait_until
from tfjob.api.resources import CONFIG_MAPS, PODS
from tfjob.plan.build.parameter_server import FILE, program

Object = dict[str, Any]


def with_servers(name: str, ps: Object) -> Object:
    """A job with a worker and parameter servers of ours."""
    body = job(name, Worker=1)
    body["spec"]["tfReplicaSpecs"]["PS"] = ps
    return body


def test_the_config_map_belongs_to_the_job_and_is_put_back(team: Room) -> None:
    team.create(with_servers("served", {"replicas": 2, "template": {"spec": {"nodeSelector": {"disk": "ssd"}}}}))
    pods = team.until_pods("served", "ps-0", "ps-1", "worker-0")
    made = team.get(CONFIG_MAPS, "served-ps-server")
    assert made["data"] == {FILE: program()}
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("TFJob", "served")
    spec = pods["ps-1"]["spec"]
    assert spec["nodeSelector"] == {"disk": "ssd"}
    assert spec["restartPolicy"] == "Always"
    (server,) = spec["containers"]
    assert server["command"][:2] == ["python", "/ps-server/grpc_tensorflow_server.py"]
    assert "/ps-server" in [mount["mountPath"] for mount in server["volumeMounts"]]
    team.delete(CONFIG_MAPS, "served-ps-server")
    uid = made["metadata"]["uid"]
    wait_until(lambda: (team.find(CONFIG_MAPS, "served-ps-server") or made)["metadata"]["uid"] != uid, 60)
    assert team.uids("served") == {name: pod["metadata"]["uid"] for name, pod in pods.items()}


def test_a_config_map_of_somebody_else_is_not_used(team: Room) -> None:
    foreign = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "taken-ps-server"}, "data": {FILE: "?"}}
    team.make(CONFIG_MAPS, foreign)
    team.create(with_servers("taken", {"replicas": 1}))
    status = team.until("taken", reason="NameTaken")
    assert "taken-ps-server" in status["message"]
    assert set(team.pods("taken")) == {"worker-0"}
    team.delete(CONFIG_MAPS, "taken-ps-server")
    team.until_pods("taken", "ps-0", "worker-0")
    assert team.get(CONFIG_MAPS, "taken-ps-server")["data"] == {FILE: program()}
    assert team.get(PODS, "taken-ps-0")["spec"]["containers"][0]["image"] == "tensorflow/tensorflow:2.21.0"
