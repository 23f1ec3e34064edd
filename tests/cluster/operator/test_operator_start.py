"""How an operator starts on a real API server: what it says, what it checks, and what it cannot do without."""

from __future__ import annotations

import copy
import json
import socket
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.client import Client, KubectlFailed
from support.cluster_golden import check_cluster_golden
from support.operating import OperatorProcess, operating
from support.ports import free_port
from support.room import Room, job, room
from support.running import wait_until
from tfjob.api.crd.tfjob import NAME as CRD_NAME
from tfjob.api.crd.tfjob import crd

Object = dict[str, Any]


def refused(kubeconfig: Path, *words: str) -> str:
    """What an operator says that ends at once with the exit code of a wrong call."""
    operator = OperatorProcess(kubeconfig, *words)
    assert operator.finish() == 2, operator.lines
    text = "\n".join(line for line in operator.lines if not line.startswith("{"))
    assert text.count("error:") == 1, text
    assert "Traceback" not in text
    return text


# --- a cluster that knows no TFJob at first: these tests build on each other ------------------------------------------


def test_without_the_crd_it_says_how_to_get_it(own_cluster: Client) -> None:
    text = refused(own_cluster.kubeconfig)
    assert CRD_NAME in text
    assert "tfjob operator manifests --crd-only --namespace-only | kubectl apply -f -" in text
    check_cluster_golden("operator-without-crd", text)


@pytest.mark.parametrize(
    ("scheduler", "kind"),
    [("volcano", "podgroups.scheduling.volcano.sh"), ("scheduler-plugins", "podgroups.scheduling.x-k8s.io")],
)
def test_without_the_pod_groups_of_its_gang_scheduler_it_does_not_start(
    own_cluster: Client, scheduler: str, kind: str
) -> None:
    text = refused(own_cluster.kubeconfig, f"--gang-scheduler-name={scheduler}")
    assert kind in text
    check_cluster_golden(f"operator-without-{scheduler}", text)


def test_a_crd_that_is_not_ours_is_warned_of(own_cluster: Client) -> None:
    apply(own_cluster, permissive())
    with operating(own_cluster.kubeconfig) as operator:
        (warning,) = [line["msg"] for line in operator.log if line["level"] == "warning"]
    assert CRD_NAME in warning
    assert "tfjob operator install" in warning
    check_cluster_golden("operator-other-crd", warning)


def test_a_job_that_is_older_than_our_schema_fails_with_its_field(own_cluster: Client) -> None:
    """Nothing checked it when it was stored, and the API server does not check it again."""
    apply(own_cluster, permissive())
    with room(own_cluster.kubeconfig, "default") as place:
        place.create(job("old", worker={"replicas": "two"}), job("new", worker=1))
        apply(own_cluster, crd())
        with operating(own_cluster.kubeconfig):
            status = place.until("old", "Failed")
            assert status["reason"] == "InvalidSpec"
            assert "spec.tfReplicaSpecs.worker.replicas" in status["message"]
            place.until_pods("new", "worker-0")
            assert not place.pods("old")


def permissive() -> Object:
    """A CRD as others make it, whose schema takes anything."""
    theirs = copy.deepcopy(crd())
    theirs["metadata"]["labels"] = {}
    theirs["spec"]["versions"][0]["schema"] = {
        "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    }
    return theirs


def apply(cluster: Client, definition: Object) -> None:
    """Replaces the CRD, and waits until the API server goes by it."""
    try:
        cluster.kubectl("replace", "-f", "-", stdin=json.dumps(definition))
    except KubectlFailed:
        cluster.kubectl("create", "-f", "-", stdin=json.dumps(definition))
    strict = "properties" in definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    probe = json.dumps({**job("probe", worker={"replicas": "two"}), "metadata": {"name": "probe"}})

    def is_strict() -> bool | None:
        try:
            cluster.kubectl("create", "--dry-run=server", "--validate=false", "-n", "default", "-f", "-", stdin=probe)
        except KubectlFailed as error:
            return True if "replicas" in str(error) else None
        return False

    wait_until(lambda: is_strict() is strict, 60)


# --- any cluster ------------------------------------------------------------------------------------------------------


def test_an_api_server_that_does_not_answer_is_named(tmp_path: Path) -> None:
    server = f"http://127.0.0.1:{free_port()}"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "away", "cluster": {"server": server}}],
        "users": [{"name": "me", "user": {}}],
        "contexts": [{"name": "away", "context": {"cluster": "away", "user": "me"}}],
        "current-context": "away",
    }
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    text = refused(file)
    assert server in text
    check_cluster_golden("operator-unreachable", text, SERVER=server)


@pytest.mark.parametrize("option", ["metrics", "health-probe", "webhook"])
def test_an_address_that_is_taken_is_named(control_plane: Client, quiet_room: Room, option: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        words = (f"--namespace={quiet_room.namespace}", f"--{option}-bind-address={address}")
        text = refused(control_plane.kubeconfig, *words)
    assert f"--{option}-bind-address" in text
    assert address in text
    check_cluster_golden("operator-address-taken", text, ADDRESS=address)


def test_the_log_tells_the_start_in_order_and_each_pass_by_its_job(control_plane: Client, quiet_room: Room) -> None:
    place = quiet_room.namespace
    words = (f"--namespace={place}", "--leader-elect", f"--lease-namespace={place}", "--workers=3")
    with operating(control_plane.kubeconfig, *words) as operator:
        said = [line["msg"] for line in operator.log]
        begun = [
            said.index(next(text for text in said if text.startswith(beginning)))
            for beginning in (
                "tfjob operator",
                f"lease acquired: {place}/tf-operator",
                "controller starting",
                "caches synced: ",
                "workers started: 3",
            )
        ]
        assert begun == sorted(begun)
        quiet_room.create(job("spoken", worker=1))
        quiet_room.all_run("spoken", "worker-0")
        wait_until(lambda: operator.said('"msg":"Running"'), 60)
        (line,) = [line for line in operator.log if line["msg"] == "Running"]
        assert (line["job"], line["namespace"], line["level"]) == ("spoken", place, "info")
        assert line["reconcileID"]


def test_plain_lines_are_for_people(control_plane: Client, quiet_room: Room) -> None:
    words = (f"--namespace={quiet_room.namespace}", "--log-format=text")
    with operating(control_plane.kubeconfig, *words) as operator:
        assert not operator.log
        assert any("INFO    controller starting" in line for line in operator.lines)


def test_probes_and_metrics_speak_as_controller_runtime_does(control_plane: Client, quiet_room: Room) -> None:
    team, place = quiet_room, quiet_room.namespace
    with operating(control_plane.kubeconfig, f"--namespace={place}") as operator:
        assert operator.ask("/healthz") == (200, "ok")
        assert operator.ask("/readyz") == (200, "ok")
        assert operator.ask("/readyz/caches")[0] == 200
        assert operator.ask("/readyz/nothing")[0] == 404
        assert operator.ask("/healthz?verbose")[1].splitlines()[-1] == "healthz check passed"

        team.create(job("good", worker=1), job("bad", worker=1), job("again", worker=1, policy="ExitCode"))
        team.all_run("good", "worker-0")
        team.ends("good-worker-0")
        team.all_run("bad", "worker-0")
        team.ends("bad-worker-0", 1)
        team.all_run("again", "worker-0")
        team.ends("again-worker-0", 137)
        team.until("good", "Succeeded")
        team.until("bad", "Failed")
        team.until("again", restarts=1)
        for name in METRICS:
            assert operator.samples(name), name
        wanted = {
            name: [({"job_namespace": place, "framework": "tensorflow"}, count)] if count else []
            for name, count in JOBS.items()
        }
        # An operator counts a moment after its status can be seen.
        wait_until(lambda: counted(operator) == wanted, 60, lambda: f"{counted(operator)}, not {wanted}")
        assert operator.total("controller_runtime_reconcile_errors_total") == 0
        assert operator.total("rest_client_requests_total", code="201", method="POST") > 0
        assert operator.total("leader_election_master_status", name="tf-operator") == 1


def counted(operator: OperatorProcess) -> Object:
    return {name: operator.samples(f"training_operator_jobs_{name}_total") for name in JOBS}


JOBS = {"created": 3, "successful": 1, "failed": 1, "restarted": 1, "deleted": 0}
METRICS = (
    "controller_runtime_active_workers",
    "controller_runtime_max_concurrent_reconciles",
    "controller_runtime_reconcile_total",
    "controller_runtime_reconcile_errors_total",
    "controller_runtime_reconcile_time_seconds_count",
    "workqueue_adds_total",
    "workqueue_depth",
    "workqueue_queue_duration_seconds_count",
    "workqueue_work_duration_seconds_count",
    "workqueue_retries_total",
    "workqueue_unfinished_work_seconds",
    "workqueue_longest_running_processor_seconds",
    "rest_client_requests_total",
    "leader_election_master_status",
)
