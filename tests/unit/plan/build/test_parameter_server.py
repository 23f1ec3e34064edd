"""The default parameter server: who has it, what its pods are, and the ConfigMap with its program."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from msgspec import convert
from msgspec.structs import replace

from support.plan.builders import T0, after, created_pods, job, news, observed, see, task
from tfjob.api.defaults import with_defaults
from tfjob.api.objects import ConfigMap
from tfjob.api.types import API_VERSION, ReplicaSpec, TFJob
from tfjob.api.versions.registry import judge
from tfjob.api.versions.round_trip import converted
from tfjob.api.versions.v1alpha1 import completed
from tfjob.controller.actions import Create
from tfjob.controller.kind import Observation, Rejection
from tfjob.plan.build.parameter_server import config_map, has_default_server
from tfjob.plan.build.pods import pod, service
from tfjob.plan.build.settings import Settings
from tfjob.plan.plan import JobPlan, plan

FIRST = "tensorflow.org/v1alpha1"
SIDECAR = {"name": "logger", "image": "example.com/logger:1"}


def served(ps_template: dict[str, Any] | None = None, *, origin: str = "", servers: int = 2, **given: Any) -> TFJob:
    """A job of a master, a worker and parameter servers."""
    owner = job(master=1, worker=1, ps=servers, origin=origin, **given)
    replicas = {**owner.spec.tf_replica_specs, "PS": ReplicaSpec(replicas=servers, template=ps_template)}
    return replace(owner, spec=replace(owner.spec, tf_replica_specs=replicas))


def with_program(owner: TFJob, **given: Any) -> Observation:
    """What a cluster shows after the ConfigMap was made."""
    return replace_config_maps(observed(owner, **given), [config_map(owner)])


def replace_config_maps(shown: Observation, found: list[ConfigMap]) -> Observation:
    return dataclasses.replace(shown, children={**shown.children, ConfigMap: found})


def made(outcome: JobPlan) -> list[ConfigMap]:
    return [one.child for one in outcome.actions if isinstance(one, Create) and isinstance(one.child, ConfigMap)]


@pytest.mark.parametrize(
    ("ps_template", "origin", "is_ours"),
    [
        (None, "", True),
        (None, FIRST, True),
        ({"spec": {"nodeSelector": {"disk": "ssd"}}}, "", True),
        ({"spec": {"containers": []}}, FIRST, True),
        ({"spec": {"containers": [SIDECAR]}}, FIRST, True),
        ({"spec": {"containers": [SIDECAR]}}, "kubeflow.org/v1alpha1", True),
        ({"spec": {"containers": [SIDECAR]}}, "", False),
        ({"spec": {"containers": [{"image": "own"}]}}, FIRST, False),
        ({"spec": {"containers": [SIDECAR, {"name": "tensorflow"}]}}, FIRST, False),
    ],
)
def test_a_parameter_server_without_a_container_of_its_own_is_ours(
    ps_template: dict[str, Any] | None, origin: str, is_ours: bool
) -> None:
    assert has_default_server(served(ps_template, origin=origin)) == is_ours
    assert not has_default_server(served(ps_template, origin=origin, servers=0))


def test_its_pod_runs_the_program_of_the_config_map_and_knows_the_cluster() -> None:
    spec = pod(served(), task("ps-1"), 1, Settings()).spec
    (server,) = spec["containers"]
    assert server["name"] == "tensorflow"
    assert server["image"] == "tensorflow/tensorflow:2.21.0"
    assert server["command"] == [
        "python",
        "/ps-server/grpc_tensorflow_server.py",
        "--cluster_spec",
        "master|mnist-master-0.default.svc:2222,"
        "ps|mnist-ps-0.default.svc:2222;mnist-ps-1.default.svc:2222,"
        "worker|mnist-worker-0.default.svc:2222",
        "--job_name",
        "ps",
        "--task_id",
        "1",
    ]
    assert server["volumeMounts"] == [{"name": "ps-config-volume", "mountPath": "/ps-server"}]
    assert spec["volumes"] == [{"name": "ps-config-volume", "configMap": {"name": "mnist-ps-server"}}]
    assert [variable["name"] for variable in server["env"]] == ["TF_CONFIG"]
    assert spec["restartPolicy"] == "Always"


def test_what_the_template_has_beside_a_server_stays() -> None:
    own = {
        "metadata": {"labels": {"team": "vision"}},
        "spec": {
            "containers": [SIDECAR],
            "volumes": [{"name": "ps-config-volume", "emptyDir": {}}],
            "nodeSelector": {"disk": "ssd"},
        },
    }
    owner = served(own, origin=FIRST)
    child = pod(owner, task("ps-0"), 1, Settings())
    server, sidecar = child.spec["containers"]
    assert child.metadata.labels["team"] == "vision"
    assert child.spec["nodeSelector"] == {"disk": "ssd"}
    assert sidecar == {**SIDECAR, "terminationMessagePolicy": "FallbackToLogsOnError"}
    assert server["volumeMounts"] == [{"name": "ps-config-volume-2", "mountPath": "/ps-server"}]
    assert [volume["name"] for volume in child.spec["volumes"]] == ["ps-config-volume", "ps-config-volume-2"]
    assert service(owner, task("ps-0")).spec["ports"] == [{"name": "tf-port", "port": 2222}]


def stored(server: dict[str, Any], **spec: Any) -> TFJob:
    """A TfJob with such a parameter server, as the operator reads it after it has written into it."""
    own = {"spec": {"containers": [{"name": "tensorflow", "image": "example.com/train:1"}]}}
    given = {"replicaSpecs": [{"template": own}, {"tfReplicaType": "PS", **server}], **spec}
    body = {"apiVersion": FIRST, "kind": "TfJob", "metadata": {"name": "mnist"}}
    assert judge({**body, "spec": given}) == []
    hub = converted({**body, "spec": completed(given, "76no", "example.com/tf:2")}, API_VERSION)
    return with_defaults(convert(hub, TFJob))


def test_a_sidecar_keeps_its_ports_and_the_server_has_the_jobs() -> None:
    logger = {**SIDECAR, "ports": [{"name": "http", "containerPort": 80}]}
    owner = stored({"tfPort": 3333, "template": {"spec": {"containers": [logger]}}})
    server, sidecar = pod(owner, task("ps-0"), 1, Settings()).spec["containers"]
    assert server["ports"] == [{"name": "tfjob-port", "containerPort": 3333}]
    assert sidecar["ports"] == logger["ports"]
    assert service(owner, task("ps-0")).spec["ports"] == [{"name": "tf-port", "port": 3333}]
    config = json.loads(server["env"][-1]["value"])
    assert config["cluster"]["ps"] == ["ps-76no-0:3333"]


def test_what_was_edited_in_the_template_of_a_default_server_is_in_its_pods() -> None:
    whole = completed({"replicaSpecs": [{"tfReplicaType": "PS", "tfPort": 3333}]}, "76no", "example.com/tf:2")
    template = whole["replicaSpecs"][0]["template"]
    (container,) = template["spec"]["containers"]
    container |= {
        "image": "example.com/own:1",
        "env": [{"name": "A", "value": "1"}],
        "resources": {"limits": {"cpu": "1"}},
        "ports": [{"name": "http", "containerPort": 80}],
    }
    template["spec"] |= {"nodeSelector": {"disk": "ssd"}, "containers": [SIDECAR, container]}
    owner = stored(whole["replicaSpecs"][0])
    assert has_default_server(owner)
    spec = pod(owner, task("ps-0"), 1, Settings()).spec
    sidecar, server = spec["containers"]
    assert sidecar["name"] == "logger"
    assert server["command"][:3] == ["python", "/ps-server/grpc_tensorflow_server.py", "--cluster_spec"]
    assert (server["image"], server["resources"]) == ("example.com/own:1", {"limits": {"cpu": "1"}})
    assert [variable["name"] for variable in server["env"]] == ["A", "TF_CONFIG"]
    assert server["ports"] == [*container["ports"], {"name": "tfjob-port", "containerPort": 3333}]
    assert server["volumeMounts"] == [{"name": "ps-config-volume", "mountPath": "/ps-server"}]
    assert spec["volumes"] == [{"name": "ps-config-volume", "configMap": {"name": "cm-ps-76no"}}]
    assert spec["nodeSelector"] == {"disk": "ssd"}

    container["command"] = ["python", "/ps-server/grpc_tensorflow_server.py", "--verbose"]
    server = pod(stored(whole["replicaSpecs"][0]), task("ps-0"), 1, Settings()).spec["containers"][1]
    assert server["command"] == container["command"], "it has TF_CONFIG"


@pytest.mark.parametrize("origin", ["", FIRST])
def test_it_listens_at_the_port_of_its_job_and_everybody_is_told_so(origin: str) -> None:
    owner = served(origin=origin, annotations={"tfjob/ps-port": "3333", "tfjob/runtime-id": "76no"})
    server = pod(owner, task("ps-0"), 1, Settings()).spec["containers"][0]
    assert server["ports"] == [{"name": "tfjob-port", "containerPort": 3333}]
    assert service(owner, task("ps-0")).spec["ports"][0]["port"] == 3333
    told = server["command"][server["command"].index("--cluster_spec") + 1]
    config = json.loads(server["env"][-1]["value"])
    for address in config["cluster"]["ps"]:
        assert address in told
        assert address.endswith(":3333")
    assert config["cluster"]["worker"][0].endswith(":2222")


@pytest.mark.parametrize(
    ("tf_image", "operators", "used"),
    [("", "", "tensorflow/tensorflow:2.21.0"), ("", "example.com/tf:2", "example.com/tf:2"), ("own:1", "x:2", "own:1")],
)
def test_its_image_is_the_jobs_else_the_operators_else_a_current_one(tf_image: str, operators: str, used: str) -> None:
    owner = served(tf_image=tf_image)
    assert pod(owner, task("ps-0"), 1, Settings(tf_image=operators)).spec["containers"][0]["image"] == used


def test_dynamic_workers_leave_it_no_cluster_to_be_told_of() -> None:
    owner = served(enable_dynamic_worker=True)
    command = pod(owner, task("ps-0"), 1, Settings()).spec["containers"][0]["command"]
    assert command == ["python", "/ps-server/grpc_tensorflow_server.py"]


def test_the_config_map_is_named_after_the_runtime_id_in_a_tf_job_and_belongs_to_the_job() -> None:
    first = served(origin=FIRST, annotations={"tfjob/runtime-id": "76no"})
    assert config_map(first).metadata.name == "cm-ps-76no"
    made_for = config_map(served(), "serve()")
    assert made_for.metadata.name == "mnist-ps-server"
    assert made_for.data == {"grpc_tensorflow_server.py": "serve()"}
    assert made_for.metadata.owner_references == pod(served(), task("ps-0"), 1, Settings()).metadata.owner_references
    assert made_for.metadata.labels.items() >= {"training.kubeflow.org/job-name": "mnist"}.items()


def test_the_config_map_comes_before_the_parameter_servers_and_is_put_back_while_the_job_runs() -> None:
    owner = served()
    first = see(owner, settings=Settings(server_program="serve()"))
    assert [one.data for one in made(first)] == [{"grpc_tensorflow_server.py": "serve()"}]
    assert created_pods(first) == ["mnist-master-0", "mnist-worker-0"]
    owner = after(owner, first)
    second = plan(owner, with_program(owner), T0)
    assert made(second) == []
    assert created_pods(second) == ["mnist-master-0", "mnist-ps-0", "mnist-ps-1", "mnist-worker-0"]
    assert len(made(see(owner))) == 1  # it was deleted


def test_a_config_map_of_that_name_that_is_not_ours_is_waited_for() -> None:
    owner = served()
    rejections = {("ConfigMap", "mnist-ps-server"): Rejection("NameTaken", "configmap mnist-ps-server exists", T0)}
    outcome = see(owner, rejections=rejections)
    assert "ps" not in "".join(created_pods(outcome))
    assert (outcome.status.reason, outcome.status.message) == ("NameTaken", "configmap mnist-ps-server exists")
    assert news(outcome) == []


def test_a_job_with_servers_of_its_own_has_no_config_map() -> None:
    owner = job(master=1, ps=1)
    assert made(see(owner)) == []
    assert "volumes" not in pod(owner, task("ps-0"), 1, Settings()).spec
