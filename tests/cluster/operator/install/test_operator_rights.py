"""Operators with the rights that an installation gives them, and no others, on a real API server."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster.client import Client, KubectlFailed
from support.cluster_golden import check_cluster_golden
from support.operating import OperatorProcess, operating, with_token
from support.ports import free_port
from support.room import Room, job, room, template
from support.running import wait_until
from support.served import serve_tfjobs
from tfjob.api.resources import PODS
from tfjob.api.types import TFJOBS
from tfjob.operator.api_versions import ApiVersions
from tfjob.operator.install import rbac
from tfjob.operator.install.manifests import own_namespace, service_account, webhook
from tfjob.operator.options import NAME, NAMESPACE, Settings

Object = dict[str, Any]


@pytest.fixture(scope="module")
def server(own_cluster: Client) -> Client:
    serve_tfjobs(own_cluster)
    return own_cluster


@pytest.fixture(scope="module")
def elsewhere(server: Client) -> Iterator[Room]:
    """A namespace in which an operator of one namespace has no business."""
    with room(server.kubeconfig, server.namespace("elsewhere")) as found:
        yield found


def access(server: Client, namespace: str, folder: Path) -> Path:
    """A kubeconfig with the token of the operator's service account."""
    token = server.kubectl("create", "token", NAME, "-n", namespace).strip()
    return with_token(token, server.kubeconfig, folder, namespace)


@pytest.mark.faults
def test_a_role_is_enough_for_one_namespace_and_others_are_not_seen(
    server: Client, elsewhere: Room, tmp_path: Path
) -> None:
    namespace = server.namespace()
    settings = Settings(image="", namespace=namespace, namespace_only=True)
    server.apply(service_account(settings), *rbac.for_namespace(namespace, ApiVersions()))
    elsewhere.create(job("unseen", worker=1))
    with (
        room(server.kubeconfig, namespace) as team,
        operating(access(server, namespace, tmp_path), f"--namespace={namespace}", "--leader-elect") as operator,
    ):
        whole_life(team)
        assert operator.total("tfjob_cached_objects", resource="tfjobs") == 0
        assert troubles(operator) == []
    assert "status" not in elsewhere.get(TFJOBS, "unseen")


def whole_life(team: Room) -> None:
    """A job with a restart, Events, a time to live: whatever an operator does."""
    team.create(job("life", chief=1, worker=1, policy="ExitCode", run_policy={"ttlSecondsAfterFinished": 0}))
    team.all_run("life", "chief-0", "worker-0")
    before = team.uids("life")
    team.ends("life-worker-0", 137)
    wait_until(lambda: not set(team.uids("life").values()) & set(before.values()), 60)
    team.all_run("life", "chief-0", "worker-0")
    team.until_event("life", "TFJobRestarting")
    team.ends("life-chief-0")
    wait_until(lambda: team.find(TFJOBS, "life") is None, 60)


def troubles(operator: OperatorProcess) -> list[Object]:
    """What an operator complained about; that a lease is renewed late, by a busy machine, is no matter of rights."""
    said = [line for line in operator.log if line["level"] not in ("debug", "info")]
    return [line for line in said if "cannot renew" not in line["msg"]]


@pytest.fixture(scope="module")
def whole_cluster(server: Client, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rights of an installation for all namespaces, as a kubeconfig."""
    server.apply(own_namespace(), service_account(Settings(image="")), *rbac.for_cluster(NAMESPACE, ApiVersions()))
    return access(server, NAMESPACE, tmp_path_factory.mktemp("whole"))


@pytest.mark.faults
def test_the_cluster_role_is_enough_for_all_namespaces_and_shows_no_secret(
    server: Client, elsewhere: Room, whole_cluster: Path
) -> None:
    """Another pod-security label than its own is no hindrance, for it only makes the pods of jobs."""
    with operating(whole_cluster, "--leader-elect") as operator:
        assert operator.total("leader_election_master_status") == 1
        with room(server.kubeconfig, server.namespace()) as team:
            whole_life(team)
        elsewhere.until_pods("unseen", "worker-0")
        assert troubles(operator) == []
    with pytest.raises(KubectlFailed, match="cannot list resource"):
        Client(whole_cluster, server.programs).kubectl("get", "secrets", "-n", NAMESPACE)


def test_a_node_that_does_not_answer_is_named_as_what_a_restart_waits_for(server: Client, whole_cluster: Path) -> None:
    """Its pod cannot be removed, for it may still run there. No kubelet is behind this node."""
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "machine"}}
    server.apply(node)
    bound = {"replicas": 1, "template": template(nodeName="machine")}
    with operating(whole_cluster), room(server.kubeconfig, server.namespace()) as team:
        team.create(job("stuck", worker=bound))
        team.all_run("stuck", "worker-0")
        before = team.uids("stuck")
        lost = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
        server.kubectl("patch", "node", "machine", "--subresource=status", "--type=merge", "-p", json.dumps(lost))
        team.delete(PODS, "stuck-worker-0")
        status = team.until("stuck", "Restarting", reason="NodeUnreachable")
        assert "machine" in status["message"]
        check_cluster_golden("operator-node-unreachable", status["message"])
        assert team.uids("stuck") == before
        server.kubectl("delete", "pod", "stuck-worker-0", "-n", team.namespace, "--force", "--grace-period=0")
        wait_until(lambda: team.uids("stuck").get("worker-0", before["worker-0"]) != before["worker-0"], 60)


@pytest.mark.faults
def test_its_webhook_refuses_an_invalid_job_and_blocks_nothing_when_it_is_gone(
    server: Client, whole_cluster: Path
) -> None:
    address = f"127.0.0.1:{free_port()}"
    server.apply(webhook(NAMESPACE, ApiVersions(), url=f"https://{address}/validate"))
    bad = job("bad", worker={"replicas": -1, "restartPolicy": "Sometimes"})
    with operating(whole_cluster, f"--webhook-bind-address={address}") as operator:
        wait_until(lambda: operator.ask("/readyz/webhook")[0] == 200, 60)
        wait_until(lambda: "is invalid" in create(server, bad, "--dry-run=server"), 60)
        said = create(server, bad)
        assert "spec.tfReplicaSpecs.worker.replicas" in said
        assert "spec.tfReplicaSpecs.worker.restartPolicy" in said
        assert "good created" in create(server, job("good", worker=1))
        assert operator.end() == 0
    assert "bad created" in create(server, bad)
    with operating(whole_cluster), room(server.kubeconfig, "default") as place:
        assert "restartPolicy" in place.until("bad", "Failed", reason="InvalidSpec")["message"]


def create(server: Client, body: Object, *words: str) -> str:
    """What kubectl says to a job, its errors and warnings included."""
    done = subprocess.run(
        [str(server.programs / "kubectl"), "create", "-n", "default", "-f", "-", *words],
        env=server.environment(),
        input=json.dumps(body),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout
