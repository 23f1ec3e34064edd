"""Older versions of kubeflow.org on a real API server: one job, every version, by a real operator that converts."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster.client import Client, KubectlFailed
from support.operating import WAITS, OperatorProcess, operating, with_token
from support.ports import free_port
from support.room import Room, room
from support.running import wait_until
from support.served import served
from tfjob.api.crd.older import OLDER_NAMES
from tfjob.api.crd.tfjob import NAME as CRD_NAME
from tfjob.api.resources import CRDS
from tfjob.api.types import ORIGIN, TFJOBS, UNSAID
from tfjob.operator.api_versions import ApiVersions
from tfjob.operator.install import rbac
from tfjob.operator.install.manifests import crds, own_namespace, service_account, webhook
from tfjob.operator.options import NAME, NAMESPACE, Settings

Object = dict[str, Any]
pytestmark = pytest.mark.timeout(400)

VERSIONS = ("v1", *OLDER_NAMES)
TEMPLATE = {"spec": {"containers": [{"name": "tensorflow", "image": "python:3"}], "fieldOfTomorrow": 1}}
BY_TYPE = {"Master": {"replicas": 1, "template": TEMPLATE}, "Worker": {"replicas": 2, "template": TEMPLATE}}
LISTED = [{"tfReplicaType": kind.upper(), **replica} for kind, replica in BY_TYPE.items()]
SPECS: dict[str, Object] = {
    "v1": {"tfReplicaSpecs": BY_TYPE, "runPolicy": {"cleanPodPolicy": "None"}, "successPolicy": "AllWorkers"},
    **{version: {"tfReplicaSpecs": BY_TYPE, "cleanPodPolicy": "None"} for version in OLDER_NAMES},
    "v1alpha1": {"replicaSpecs": LISTED[::-1]},
}


def job(version: str, name: str = "", **spec: Any) -> Object:
    """A job with a master and two workers as a version has it."""
    return {
        "apiVersion": f"kubeflow.org/{version}",
        "kind": "TFJob",
        "metadata": {"name": name or f"from-{version}"},
        "spec": {**copy.deepcopy(SPECS[version]), **spec},
    }


ALL = ApiVersions(("v1", *OLDER_NAMES), tensorflow=False)


class Served:
    """A namespace of an API server that serves every version, and operators that convert."""

    def __init__(self, client: Client, place: Room, rights: Path) -> None:
        self.client = client
        self.place = place
        self.rights = rights
        self.namespace = place.namespace

    def get(self, version: str, name: str) -> Object:
        found: Object = self.client.get(f"tfjobs.{version}.kubeflow.org", name, "-n", self.namespace)
        return found

    def kubectl(self, verb: str, value: Object, *words: str) -> str:
        return self.client.kubectl(verb, "-n", self.namespace, "-f", "-", *words, stdin=json.dumps(value))

    def patch(self, version: str, name: str, value: Object) -> None:
        place = (f"tfjobs.{version}.kubeflow.org", name, "-n", self.namespace)
        self.client.kubectl("patch", *place, "--type=merge", "-p", json.dumps(value))

    def converts(self, address: str) -> None:
        """Makes the API server ask the operator at an address."""
        self.client.apply(
            *crds(NAMESPACE, ALL, url=f"https://{address}/convert"),
            webhook(NAMESPACE, ALL, url=f"https://{address}/validate"),
        )

    def answers(self) -> bool:
        """Whether an older version can be written and read."""
        try:
            self.kubectl("create", job("v1beta1", "probe"), "--dry-run=server")
            self.client.kubectl("get", "tfjobs.v1beta1.kubeflow.org", "-n", self.namespace)
        except KubectlFailed:
            return False
        return True


@pytest.fixture(scope="module")
def world(own_cluster: Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    own_cluster.apply(own_namespace(), service_account(Settings(image="")), *rbac.for_cluster(NAMESPACE, ALL))
    own_cluster.apply(*crds(NAMESPACE, ALL.stored))
    wait_until(lambda: served(own_cluster), 60)
    token = own_cluster.kubectl("create", "token", NAME, "-n", NAMESPACE).strip()
    rights = with_token(token, own_cluster.kubeconfig, tmp_path_factory.mktemp("rights"), NAMESPACE)
    with room(own_cluster.kubeconfig, own_cluster.namespace()) as place:
        yield Served(own_cluster, place, rights)


@pytest.fixture(scope="module")
def operator(world: Served) -> Iterator[OperatorProcess]:
    """An operator with the rights of an installation, and no others, which the API server believes."""
    address = f"127.0.0.1:{free_port()}"
    world.converts(address)
    with operating(world.rights, "--leader-elect", f"--webhook-bind-address={address}") as process:
        wait_until(world.answers, 60)
        yield process


@pytest.mark.parametrize("version", VERSIONS)
def test_a_job_of_one_version_runs_and_is_read_in_all_the_others(
    world: Served, operator: OperatorProcess, version: str
) -> None:
    name = f"from-{version}"
    world.kubectl("create", job(version))
    world.place.all_run(name, "master-0", "worker-0", "worker-1")
    world.place.until(name, "Running")
    for other in OLDER_NAMES:
        found = world.get(other, name)
        expected = SPECS[other] if other == version or other != "v1alpha1" else {"replicaSpecs": LISTED}
        if version == "v1alpha1" and other != version:
            expected = {"tfReplicaSpecs": BY_TYPE}
        assert found["spec"] == expected, other
        status = {key: value for key, value in found["status"].items() if key != "details"}
        if other == "v1alpha1":
            assert (status["phase"], status["state"], status["reason"]) == ("Running", "Running", "")
            assert {one["tf_replica_type"]: one["ReplicasStates"] for one in status["replicaStatuses"]} == {
                "MASTER": {"Running": 1},
                "WORKER": {"Running": 2},
            }
        else:
            counts = "tfReplicaStatuses" if other == "v1alpha2" else "replicaStatuses"
            assert set(status) == {"conditions", counts, "startTime"}
            assert [one["type"] for one in status["conditions"]] == ["Created", "Running"]
    stored = world.get("v1", name)
    assert stored["metadata"].get("annotations", {}).get(ORIGIN) == (
        None if version == "v1" else f"kubeflow.org/{version}"
    )
    assert stored["spec"]["tfReplicaSpecs"] == BY_TYPE


def test_each_version_has_its_columns(world: Served, operator: OperatorProcess) -> None:
    world.kubectl("create", job("v1", "columns"))
    world.place.all_run("columns", "master-0", "worker-0", "worker-1")
    world.place.until("columns", "Running")
    rows = {
        version: world.client.kubectl("get", f"tfjobs.{version}.kubeflow.org", "columns", "-n", world.namespace)
        for version in ("v1", "v1beta1", "v1alpha1")
    }
    shown = {version: [line.split()[:-1] for line in text.splitlines()] for version, text in rows.items()}
    assert shown["v1beta1"] == [["NAME", "STATE"], ["columns", "Running"]]
    assert shown["v1alpha1"] == [["NAME", "PHASE", "STATE"], ["columns", "Running", "Running"]]
    assert shown["v1"][0] == ["NAME", "STATE", "READY", "RESTARTS", "REASON"], "what a bare `kubectl get tfjobs` shows"
    assert "columns" in world.client.kubectl("get", "tfjobs", "-n", world.namespace)


def test_a_manifest_in_the_documents_spelling_can_be_applied_again(world: Served, operator: OperatorProcess) -> None:
    manifest = {**job("v1alpha1", "spelt"), "spec": {"runtimeId": "ab12", "replica_specs": list(LISTED)}}
    world.kubectl("apply", manifest)
    assert world.get("v1", "spelt")["spec"]["tfReplicaSpecs"] == BY_TYPE
    assert "unchanged" in world.kubectl("apply", manifest)
    manifest["spec"]["replica_specs"][1] = {**LISTED[1], "replicas": 3}
    assert "configured" in world.kubectl("apply", manifest)
    assert world.get("v1", "spelt")["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] == 3
    found = world.get("v1alpha1", "spelt")["spec"]
    assert set(found) == {"runtimeId", "replica_specs"}


@pytest.mark.parametrize("version", OLDER_NAMES)
def test_server_side_apply_and_edits_in_an_older_version_keep_what_it_cannot_say(
    world: Served, operator: OperatorProcess, version: str
) -> None:
    name = f"edited-{version}"
    world.kubectl("create", job("v1", name, runPolicy={"cleanPodPolicy": "None", "backoffLimit": 3}))
    before = world.get("v1", name)["spec"]
    world.patch(version, name, {"metadata": {"labels": {"edited": "yes"}}})
    assert world.get("v1", name)["spec"] == before
    applied = {
        "apiVersion": f"kubeflow.org/{version}",
        "kind": "TFJob",
        "metadata": {"name": name},
        "spec": {"replicaSpecs": LISTED} if version == "v1alpha1" else {"ttlSecondsAfterFinished": 900},
    }
    for _ in range(2):
        world.kubectl("apply", applied, "--server-side", "--force-conflicts", "--field-manager=somebody")
    after = world.get("v1", name)
    policy = after["spec"].pop("runPolicy")
    assert policy == {
        **before.pop("runPolicy"),
        **({} if version == "v1alpha1" else {"ttlSecondsAfterFinished": 900}),
    }
    assert after["spec"] == before
    assert after["metadata"]["labels"] == {"edited": "yes"}


def test_an_update_that_brings_no_annotations_does_not_make_the_operator_forget(
    world: Served, operator: OperatorProcess
) -> None:
    """As a client does that knows nothing of them: the memory is in the status, which the API server keeps."""
    world.kubectl("create", job("v1", "replaced"))
    world.place.all_run("replaced", "master-0", "worker-0", "worker-1")
    before = world.place.until("replaced", "Running")
    pods = world.place.uids("replaced")
    found = world.get("v1beta1", "replaced")
    assert UNSAID in found["metadata"].pop("annotations")
    del found["status"]
    world.kubectl("replace", found)
    after = world.place.status("replaced")
    assert (after["attempt"], after["started"]) == (before["attempt"], before["started"])
    assert "successPolicy" not in world.get("v1", "replaced")["spec"]
    assert world.place.uids("replaced") == pods


def test_a_refusal_names_the_place_in_the_users_version(world: Served, operator: OperatorProcess) -> None:
    wrong = [{**LISTED[0], "tfReplicaType": "BOSS"}, {**LISTED[1], "replicas": -1}]
    with pytest.raises(KubectlFailed) as refused:
        world.kubectl("create", job("v1alpha1", "wrong", replicaSpecs=wrong))
    assert "spec.replicaSpecs[0].tfReplicaType: " in str(refused.value)
    assert "BOSS" in str(refused.value)
    assert "spec.replicaSpecs[1].replicas" in str(refused.value)
    with pytest.raises(KubectlFailed, match=r"spec\.activeDeadlineSeconds"):
        world.kubectl("create", job("v1beta1", "wrong", activeDeadlineSeconds=-1))
    # The webhook knows fields that v1alpha1's schema leaves open.
    with pytest.raises(KubectlFailed, match=r"spec\.tfReplicaSpecs: .*replicaSpecs"):
        world.kubectl("create", job("v1alpha1", "wrong", tfReplicaSpecs=BY_TYPE))


def test_a_standby_converts_too(world: Served, operator: OperatorProcess) -> None:
    address = f"127.0.0.1:{free_port()}"
    before = world.place.find(CRDS, CRD_NAME)
    with operating(world.rights, "--leader-elect", f"--webhook-bind-address={address}", wait=WAITS) as two:
        world.converts(address)
        wait_until(world.answers, 60)
        world.kubectl("create", job("v1beta1", "by-the-standby"))
        assert two.total("leader_election_master_status") == 0
        world.place.all_run("by-the-standby", "master-0", "worker-0", "worker-1")
        world.place.until("by-the-standby", "Running")
        assert world.get("v1beta1", "by-the-standby")["status"]["conditions"]
    assert before is not None
    world.converts(before["spec"]["conversion"]["webhook"]["clientConfig"]["url"].split("/")[2])
    wait_until(world.answers, 60)


def test_without_an_operator_v1_works_and_older_versions_say_why_they_do_not(
    world: Served, operator: OperatorProcess
) -> None:
    """The last test, because it ends the operator."""
    for version in VERSIONS:
        world.kubectl("create", job(version, f"left-{version}"))
        world.place.until_pods(f"left-{version}", "master-0", "worker-0", "worker-1")
    assert operator.end() == 0
    for version in VERSIONS:
        name = f"left-{version}"
        world.patch("v1", name, {"metadata": {"labels": {"touched": "yes"}}})
        world.place.write_status(name, {"message": "written"})
        found = world.get("v1", name)
        assert found["status"]["message"] == "written"
        found["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] = 5
        world.kubectl("replace", found)
        applied = {**job("v1", name), "spec": {"successPolicy": "AllWorkers"}}
        world.kubectl("apply", applied, "--server-side", "--force-conflicts", "--field-manager=somebody")
    world.kubectl("create", job("v1", "made-without"))
    assert "made-without" in world.client.kubectl("get", "tfjobs", "-n", world.namespace)
    for version in OLDER_NAMES:
        with pytest.raises(KubectlFailed, match=r"conversion webhook for kubeflow\.org/v1.* failed"):
            world.get(version, "left-v1")
        with pytest.raises(KubectlFailed, match=r"conversion webhook for kubeflow\.org/.* failed"):
            world.kubectl("create", job(version, "refused"))
    for version in VERSIONS:
        world.place.delete(TFJOBS, f"left-{version}")
        wait_until(lambda version=version: world.place.find(TFJOBS, f"left-{version}") is None, 60)  # type: ignore[misc]
    # Who clears a namespace asks for every version, and takes v1.
    world.client.delete_namespace(world.namespace, wait=True)
