"""The life of a TfJob of tensorflow.org on a real API server with its Job controller, as the documents show it."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace

from devcluster.client import Client
from support.cluster_line import on_cluster
from support.installed import Installed
from support.operating import operated_room, operating
from support.plan.builders import job
from support.room import Room, room, template
from support.running import wait_until
from support.served import serve_tf_jobs
from support.tf_jobs import Object, begin, begun, is_new, pods, replica, tf_job, until
from tfjob.api.dialect import TENSORFLOW, TF_JOBS
from tfjob.api.resources import CONFIG_MAPS, DEPLOYMENTS, JOBS, PODS, RESOURCE_QUOTAS, SERVICES, Resource
from tfjob.api.types import RUNTIME_ID, ChiefReference, TerminationPolicy
from tfjob.kube.cluster.tensorflow_org import TensorFlowOrgStorage, draw
from tfjob.plan.build.pods import pod as planned
from tfjob.plan.build.settings import Settings
from tfjob.plan.facts.tasks import Task


@pytest.fixture(scope="module")
def documents(own_cluster: Client) -> Iterator[Room]:
    """A cluster that has tensorflow.org alone, and an operator."""
    serve_tf_jobs(own_cluster)
    with operated_room(own_cluster) as found:
        yield found


def first_words(table: str) -> set[str]:
    """The names in what `kubectl get` prints."""
    return {line.split()[0] for line in table.splitlines()[1:]}


def test_a_job_of_the_documents_runs_and_shows_what_they_show(
    documents: Room, own_cluster: Client, tmp_path: Path
) -> None:
    """With their commands as they are printed."""
    team = documents
    here = Path(shutil.copy(own_cluster.kubeconfig, tmp_path / "config"))
    client = dataclasses.replace(own_cluster, kubeconfig=here)
    client.kubectl("config", "set-context", "--current", f"--namespace={team.namespace}")

    def printed(command: str) -> str:
        return client.kubectl(*command.split()[1:])

    body = tf_job("example-job", replica("MASTER"), replica("WORKER"), {"replicas": 2, "tfReplicaType": "PS"})
    manifest = tmp_path / "tf_job.yaml"
    manifest.write_text(yaml.safe_dump(body))
    assert printed(f"kubectl create -f {manifest}") == "tfjob.tensorflow.org/example-job created\n"
    runtime_id = begun(team, "example-job", "master-0", "worker-0", "ps-0", "ps-1")
    assert re.fullmatch("[0-9a-z]{4}", runtime_id)

    stored = team.get(TF_JOBS, "example-job")["spec"]
    replicas = [
        (one["tfReplicaType"], one["replicas"], one["tfPort"], one["IsDefaultPS"]) for one in stored["replicaSpecs"]
    ]
    assert replicas == [("MASTER", 1, 2222, False), ("WORKER", 1, 2222, False), ("PS", 2, 2222, True)]
    (server,) = stored["replicaSpecs"][2]["template"]["spec"]["containers"]
    assert (server["name"], server["image"]) == ("tensorflow", stored["tfImage"])
    assert server["volumeMounts"] == [{"mountPath": "/ps-server", "name": "ps-config-volume"}]

    jobs = {one["metadata"]["name"]: one for one in team.objects(JOBS, f"runtime_id={runtime_id}")}
    names = {f"{task}-{runtime_id}-{index}" for task, index in (("master", 0), ("worker", 0), ("ps", 0), ("ps", 1))}
    assert set(jobs) == names
    assert names <= first_words(printed("kubectl get job"))
    assert names <= first_words(printed("kubectl get services"))
    assert names <= {word.rpartition("-")[0] for word in first_words(printed("kubectl get pod"))}
    wrapper = jobs[f"master-{runtime_id}-0"]
    assert (wrapper["spec"]["backoffLimit"], wrapper["spec"]["template"]["spec"]["restartPolicy"]) == (0, "Never")
    assert wrapper["metadata"]["ownerReferences"][0]["kind"] == "TfJob"
    master = pods(team, "example-job")["master-0"]
    assert re.fullmatch(f"master-{runtime_id}-0-[0-9a-z]{{5}}", master["metadata"]["name"])
    service = team.get(SERVICES, f"ps-{runtime_id}-1")["spec"]
    assert service["clusterIP"] != "None"
    assert [(port["name"], port["port"]) for port in service["ports"]] == [("tf-port", 2222)]
    (container,) = master["spec"]["containers"]
    config = json.loads(next(one["value"] for one in container["env"] if one["name"] == "TF_CONFIG"))
    assert config["cluster"]["ps"] == [f"ps-{runtime_id}-0:2222", f"ps-{runtime_id}-1:2222"]
    assert config["task"] == {"type": "master", "index": 0}

    told = team.until_event("example-job", "SuccessfulCreateJob")["message"]
    assert told.startswith("Created job")
    assert f"master-{runtime_id}-0" in told
    assert "SuccessfulCreatePod" not in {one["reason"] for one in team.events("example-job")}

    team.ends(master["metadata"]["name"], 0)
    status = until(team, "example-job", phase="Done", state="Succeeded")
    assert [(one["tf_replica_type"], one["state"], one["ReplicasStates"]) for one in status["replicaStatuses"]] == [
        ("MASTER", "Succeeded", {"Succeeded": 1}),
        ("WORKER", "Running", {"Running": 1}),
        ("PS", "Running", {"Running": 2}),
    ]
    assert status.items() >= {"reason": "", "controlPaused": False}.items()
    wait_until(lambda: len(team.objects(JOBS, f"runtime_id={runtime_id}")) == 1, 60)
    assert team.find(JOBS, f"master-{runtime_id}-0")
    wait_until(lambda: set(pods(team, "example-job")) == {"master-0"}, 60)

    lines = [line.split() for line in printed("kubectl get tfjob").splitlines()]
    assert lines[0] == ["NAME", "PHASE", "STATE", "RUNTIMEID", "AGE"]
    assert ["example-job", "Done", "Succeeded", runtime_id] in [line[:4] for line in lines]
    shown = yaml.safe_load(printed("kubectl get -o yaml tfjobs example-job"))
    assert (shown["kind"], shown["spec"], shown["status"]["phase"]) == ("TfJob", stored, "Done")
    assert printed("kubectl delete tfjob example-job").startswith('tfjob.tensorflow.org "example-job" deleted')
    wait_until(lambda: not team.objects(JOBS, f"runtime_id={runtime_id}"), 90)
    assert "example-job" not in first_words(printed("kubectl get tfjobs"))


def test_a_lost_worker_and_a_server_that_exits_are_started_again_and_nothing_else_is(documents: Room) -> None:
    team = documents
    runtime_id = begin(
        team, tf_job("again", replica("MASTER"), replica("WORKER"), replica("PS")), "master-0", "worker-0", "ps-0"
    )
    before = pods(team, "again")
    team.ends(before["worker-0"]["metadata"]["name"], 1)
    wait_until(lambda: is_new(team, "again", "worker-0", before), 90)
    team.runs(pods(team, "again")["worker-0"]["metadata"]["name"])
    wait_until(lambda: until(team, "again", phase="Running").get("details", {}).get("state") == "Running", 90)
    team.ends(before["ps-0"]["metadata"]["name"], 0)
    wait_until(lambda: is_new(team, "again", "ps-0", before), 90)
    after = pods(team, "again")
    assert after["master-0"]["metadata"]["uid"] == before["master-0"]["metadata"]["uid"]
    details = team.get(TF_JOBS, "again")["status"]["details"]
    assert details["taskRestarts"] == {"ps-0": 1, "worker-0": 1}
    assert {one["metadata"]["name"] for one in team.objects(JOBS, f"runtime_id={runtime_id}")} == {
        f"{task}-{runtime_id}-0" for task in ("master", "worker", "ps")
    }


def test_a_pod_that_somebody_deletes_is_replaced_by_the_plan_and_not_by_its_job(documents: Room) -> None:
    team = documents
    runtime_id = begin(team, tf_job("deleted", replica("MASTER"), replica("WORKER")), "master-0", "worker-0")
    before = {one["metadata"]["name"]: one["metadata"]["uid"] for one in team.objects(JOBS, f"runtime_id={runtime_id}")}
    gone = pods(team, "deleted")
    team.delete(PODS, gone["worker-0"]["metadata"]["name"])
    team.ends(gone["worker-0"]["metadata"]["name"], 143)  # as its kubelet does; the Job holds it until then
    wait_until(lambda: is_new(team, "deleted", "worker-0", gone), 90)
    made = {one["metadata"]["name"]: one["metadata"]["uid"] for one in team.objects(JOBS, f"runtime_id={runtime_id}")}
    assert made[f"worker-{runtime_id}-0"] != before[f"worker-{runtime_id}-0"]


def test_a_job_makes_no_second_pod_where_the_server_drops_its_replacement_policy(documents: Room) -> None:
    """As Kubernetes before 1.29 does: the pod that is being deleted is there for as long as it likes, and alone."""
    team = documents
    policy = TerminationPolicy(chief=ChiefReference())
    owner = job(name="older", origin=TENSORFLOW, annotations={RUNTIME_ID: "old1"}, master=1, termination_policy=policy)
    made = TensorFlowOrgStorage.wrap(planned(owner, Task("Master", 0), 1, Settings()))
    spec = {key: value for key, value in made.spec.items() if key != "podReplacementPolicy"}
    spec["template"] = {**spec["template"], "metadata": {"finalizers": ["example.com/still-ends"]}}
    uid = team.make(JOBS, {"metadata": {"name": made.metadata.name}, "spec": spec})["metadata"]["uid"]

    def found() -> list[Object]:
        return team.objects(PODS, f"batch.kubernetes.io/controller-uid={uid}")

    def held() -> set[str]:
        return {one["type"] for one in team.get(JOBS, made.metadata.name)["status"].get("conditions") or ()}

    wait_until(lambda: len(found()) == 1, 90)
    name = found()[0]["metadata"]["name"]
    team.runs(name)
    team.delete(PODS, name)
    wait_until(lambda: bool(held() & {"FailureTarget", "Failed"}), 90, lambda: str(found()))
    assert [one["metadata"]["name"] for one in found()] == [name]
    team.release(name)
    wait_until(lambda: "Failed" in held() and not found(), 90, lambda: str(found()))


def test_an_error_of_the_master_fails_the_job(documents: Room) -> None:
    team = documents
    begin(team, tf_job("failing", replica("MASTER")), "master-0")
    team.ends(pods(team, "failing")["master-0"]["metadata"]["name"], 3)
    status = until(team, "failing", phase="Done", state="Failed")
    assert "master-0" in status["reason"]
    assert status["replicaStatuses"] == [
        {"tf_replica_type": "MASTER", "state": "Failed", "ReplicasStates": {"Failed": 1}}
    ]


def test_the_spellings_of_the_documents_are_understood_and_written_as_they_show_them(documents: Room) -> None:
    team = documents
    body = tf_job("spelt", runtimeId="ab12")
    body["spec"]["replica_specs"] = [{"template": template()}]
    del body["spec"]["replicaSpecs"]
    assert begin(team, body, "master-0") == "ab12"
    stored = team.get(TF_JOBS, "spelt")["spec"]
    assert not {"replica_specs", "runtimeId"} & stored.keys()
    assert stored["replicaSpecs"][0]["tfReplicaType"] == "MASTER"


def test_a_manifest_in_the_documents_spelling_can_be_applied_again(documents: Room, own_cluster: Client) -> None:
    """The operator has written its fields in another spelling meanwhile."""
    team = documents
    body = tf_job("applied")
    worker: Object = {"tf_replica_type": "WORKER", "template": template()}
    body["spec"] = {"runtimeId": "cd34", "replica_specs": [{"template": template()}, worker]}

    def apply() -> Object:
        """The spec once the operator has written into it."""
        own_cluster.apply(body, namespace=team.namespace)
        wait_until(lambda: "replica_specs" not in team.get(TF_JOBS, "applied")["spec"], 90)
        spec: Object = team.get(TF_JOBS, "applied")["spec"]
        return spec

    before = apply()
    assert begun(team, "applied", "master-0", "worker-0") == "cd34"
    first = {task: pod["metadata"]["uid"] for task, pod in pods(team, "applied").items()}
    assert apply() == before
    assert {task: pod["metadata"]["uid"] for task, pod in pods(team, "applied").items()} == first
    worker["replicas"] = 2
    after = apply()
    assert [one["replicas"] for one in after["replicaSpecs"]] == [1, 2]
    assert after.keys() == before.keys()
    wait_until(lambda: "worker-1" in pods(team, "applied"), 90, lambda: str(team.find(TF_JOBS, "applied")))
    assert "InvalidSpec" not in {one["reason"] for one in team.events("applied")}


def test_a_job_that_is_none_is_failed_with_the_place_of_the_fault(documents: Room) -> None:
    documents.make(TF_JOBS, tf_job("broken", {"tfReplicaType": "MASTER"}))
    status = until(documents, "broken", phase="Failed", state="Failed")
    assert "spec.replicaSpecs[0].template: " in status["reason"]


def test_an_edit_that_is_not_sound_is_told_and_neither_obeyed_nor_rewritten(documents: Room) -> None:
    """Here no webhook judges it."""
    team = documents
    begin(team, tf_job("edited", replica("MASTER"), replica("WORKER", 2)), "master-0", "worker-0", "worker-1")
    before = {task: pod["metadata"]["uid"] for task, pod in pods(team, "edited").items()}
    sound = team.get(TF_JOBS, "edited")["spec"]["replicaSpecs"]
    broken = json.loads(json.dumps(sound))
    broken[1] |= {"replicas": "none", "tfPrt": 3}
    broken[1]["template"]["spec"]["terminationGracePeriodSeconds"] = "5"
    team.patch(TF_JOBS, "edited", {"spec": {"replicaSpecs": broken}})
    told = team.until_event("edited", "InvalidSpec")
    assert told["type"] == "Warning"
    assert "spec.replicaSpecs[1].tfPrt: " in told["message"]
    wait_until(lambda: until(team, "edited", state="Running")["reason"].startswith("InvalidSpec: spec.replica"), 90)
    found = team.get(TF_JOBS, "edited")
    assert found["spec"]["replicaSpecs"] == broken
    assert found["status"]["replicaStatuses"][1]["ReplicasStates"] == {"Running": 2}
    assert {task: pod["metadata"]["uid"] for task, pod in pods(team, "edited").items()} == before

    team.patch(TF_JOBS, "edited", {"spec": {"replicaSpecs": sound}})
    until(team, "edited", state="Running", reason="")
    assert {task: pod["metadata"]["uid"] for task, pod in pods(team, "edited").items()} == before


def test_a_job_that_is_deleted_takes_everything_with_it_though_no_operator_is_there(
    documents: Room, own_cluster: Client
) -> None:
    config, namespace = own_cluster.kubeconfig, own_cluster.namespace()
    with room(config, namespace) as team:
        with operating(config, f"--namespace={namespace}"):
            board = {"logDir": "/logs"}
            body = tf_job("short", replica("MASTER"), {"tfReplicaType": "PS"}, tensorboard=board)
            runtime_id = begin(team, body, "master-0", "ps-0")
            kinds = {JOBS: 2, PODS: 3, SERVICES: 3, CONFIG_MAPS: 1, DEPLOYMENTS: 1}

            def found() -> dict[Resource, int]:
                return {one: len(team.objects(one, f"runtime_id={runtime_id}")) for one in kinds}

            wait_until(lambda: found() == kinds, 90, lambda: str(found()))
        team.delete(TF_JOBS, "short")
        for resource in kinds:
            wait_until(lambda kind=resource: not team.objects(kind, f"runtime_id={runtime_id}"), 90)  # type: ignore[misc]


def test_the_manifest_of_another_job_gets_an_id_of_its_own(documents: Room) -> None:
    """With all that was written into it, and whatever version it says that it is of."""
    first = begin(documents, tf_job("original", replica("MASTER")), "master-0")
    copied = tf_job("copied")
    copied["spec"] = documents.get(TF_JOBS, "original")["spec"]
    copied["metadata"]["annotations"] = {"tfjob/origin": "kubeflow.org/v1beta1"}
    assert begin(documents, copied, "master-0") != first


def test_what_refuses_a_pod_is_the_reason_why_the_job_waits(documents: Room) -> None:
    team = documents
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"requests.memory": "1Mi"}}}
    team.make(RESOURCE_QUOTAS, quota)
    wait_until(lambda: "hard" in team.get(RESOURCE_QUOTAS, "none").get("status", {}), 90)
    greedy = replica("MASTER")
    greedy["template"]["spec"]["containers"][0]["resources"] = {"requests": {"memory": "1Gi"}}
    team.make(TF_JOBS, tf_job("greedy", greedy))
    wait_until(lambda: "exceeded quota" in team.get(TF_JOBS, "greedy").get("status", {}).get("reason", ""), 90)
    assert until(team, "greedy", phase="Creating", state="Running")
    team.delete(RESOURCE_QUOTAS, "none")
    wait_until(lambda: len(pods(team, "greedy")) == 1, 90)


def test_a_name_that_is_taken_means_another_id(documents: Room) -> None:
    """By anybody, for any child; what was drawn costs as many requests for a hundred workers as for one."""
    team = documents
    service = {"ports": [{"port": 1}]}
    team.make(SERVICES, {"metadata": {"name": "worker-aaaa-99"}, "spec": service})
    team.make(SERVICES, {"metadata": {"name": "tensorboard-bbbb"}, "spec": service})
    team.make(CONFIG_MAPS, {"metadata": {"name": "cm-ps-cccc"}})
    once = {"suspend": True, "template": template(restartPolicy="Never")}
    team.make(JOBS, {"metadata": {"name": "master-dddd-0"}, "spec": once})
    ours = {"training.kubeflow.org/operator-name": "tfjob-controller", "runtime_id": "eeee"}
    team.make(JOBS, {"metadata": {"name": "worker-eeee-0", "labels": ours}, "spec": once})
    ids = iter(("used", "aaaa", "bbbb", "cccc", "dddd", "eeee", "free"))
    owner = job(name="draws", origin=TENSORFLOW, master=1, worker=100)
    owner = replace(owner, metadata=replace(owner.metadata, namespace=team.namespace))
    assert team.do(lambda: draw(team.client, owner, {"used"}, lambda: next(ids))) == "free"
    asked: list[str] = []
    team.client.observe = lambda method, code, seconds: asked.append(method)
    assert team.do(lambda: draw(team.client, owner, set(), lambda: "free")) == "free"
    team.client.observe = None
    assert asked == ["GET"] * 6


def test_a_manifest_of_tensorflow_org_becomes_a_tf_job_where_there_are_any(
    documents: Room, own_cluster: Client, tool: Installed, tmp_path: Path
) -> None:
    command = on_cluster(tool, own_cluster.kubeconfig, documents.namespace, tmp_path)
    manifest = tmp_path / "tfjob.json"
    manifest.write_text(json.dumps(tf_job("sent", replica("MASTER"))))
    command("run", "--detach", str(manifest))
    until(documents, "sent", phase="Creating")
    stored = documents.get(TF_JOBS, "sent")
    assert stored["kind"] == "TfJob"
    assert stored["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]["image"] == "example.com/train:1"
    assert "tfjob/origin" not in stored["metadata"].get("annotations", {})
