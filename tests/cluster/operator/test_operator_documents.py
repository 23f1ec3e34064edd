"""The blocks of the documents on a real API server: each becomes a job with the children that its version has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from devcluster.client import Client
from support.cluster_line import on_cluster
from support.docs.blocks import BLOCKS, TASKS
from support.installed import Installed
from support.operating import operating
from support.room import JOB_NAME, Room, room
from support.running import wait_until
from support.served import serve_tf_jobs, serve_tfjobs
from tfjob.api.dialect import TF_JOBS
from tfjob.api.resources import DEPLOYMENTS, JOBS, PODS, SERVICES, Resource
from tfjob.api.types import TFJOBS

Object = dict[str, Any]
TEXTS = {path.stem: path.read_text() for path in BLOCKS}
NAMES: dict[str, str] = {block: yaml.safe_load(text)["metadata"]["name"] for block, text in TEXTS.items()}
OF_TENSORFLOW = sorted(block for block, text in TEXTS.items() if "kind: TfJob" in text.replace('"', ""))
OTHERS = sorted(TEXTS.keys() - set(OF_TENSORFLOW))


@pytest.fixture(scope="module")
def submitted(own_cluster: Client, tool: Installed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    """A cluster with both groups and an operator, and all blocks sent to it at once."""
    serve_tfjobs(own_cluster)
    serve_tf_jobs(own_cluster)
    namespace, folder, config = own_cluster.namespace(), tmp_path_factory.mktemp("blocks"), own_cluster.kubeconfig
    with room(config, namespace) as found, operating(config, f"--namespace={namespace}"):
        manifest = folder / "blocks.yaml"
        manifest.write_text("\n---\n".join(TEXTS.values()).replace("namespace: default", f"namespace: {namespace}"))
        on_cluster(tool, config, namespace, folder)("submit", str(manifest))
        yield found


@pytest.mark.parametrize("block", OF_TENSORFLOW)
def test_a_block_of_tensorflow_org_is_a_tf_job_with_jobs_and_services_of_its_random_id(
    submitted: Room, block: str
) -> None:
    team, name = submitted, NAMES[block]
    pods = until_pods(team, f"tf_job_name={name},job_type", block)
    stored = team.get(TF_JOBS, name)["spec"]
    runtime_id = stored["RuntimeId"]
    assert runtime_id == "x7y2" if block == "stored" else len(runtime_id) == 4
    assert {one["tfPort"] for one in stored["replicaSpecs"]} == {2222}
    children = {f"-{runtime_id}-".join(task.split("-")) for task in TASKS[block]}
    boards = {f"tensorboard-{runtime_id}"} if "tensorboard" in block or block == "stored" else set()
    wanted = {JOBS: children, SERVICES: children | boards, DEPLOYMENTS: boards}

    def made() -> dict[Resource, set[str]]:
        selector = f"runtime_id={runtime_id}"
        return {kind: {one["metadata"]["name"] for one in team.objects(kind, selector)} for kind in wanted}

    wait_until(lambda: made() == wanted, 90, lambda: f"{made()}, not {wanted}")
    assert config_of(pods["master-0"])["task"] == {"type": "master", "index": 0}

    team.runs(*(pod["metadata"]["name"] for pod in pods.values()))
    team.ends(pods["master-0"]["metadata"]["name"])
    wait_until(lambda: phase_of(team, name) == ("Done", "Succeeded"), 90, lambda: str(team.get(TF_JOBS, name)))


@pytest.mark.parametrize("block", OTHERS)
def test_another_block_is_a_job_of_today_with_pods_of_its_name(submitted: Room, block: str) -> None:
    team, name = submitted, NAMES[block]
    pods = until_pods(team, f"{JOB_NAME}={name}", block)
    assert {pod["metadata"]["name"] for pod in pods.values()} == {f"{name}-{task}" for task in TASKS[block]}
    wait_until(lambda: sorted(team.services(name)) == TASKS[block], 60)
    leader = TASKS[block][0]
    team.runs(*(pod["metadata"]["name"] for pod in pods.values()))
    team.ends(f"{name}-{leader}")
    team.until(name, "Succeeded")


def test_what_a_block_asks_for_reaches_its_pod(submitted: Room) -> None:
    asked = {"first-gpu": "requests", "snake-case-gpu": "limits"}
    for block, where in asked.items():
        (template,) = [one["template"] for one in submitted.get(TF_JOBS, NAMES[block])["spec"]["replicaSpecs"]]
        (container,) = template["spec"]["containers"]
        assert container["resources"][where] == {"alpha.kubernetes.io/nvidia-gpu": 1}
    claim = submitted.get(TFJOBS, NAMES["v1beta1-claim"])["spec"]["tfReplicaSpecs"]["Master"]["template"]["spec"]
    assert claim["containers"][0]["volumeMounts"][0]["subPath"] == "module-claim"


def until_pods(team: Room, selector: str, block: str) -> dict[str, Object]:
    """The pods of a block by their task, once all are there."""
    found: dict[str, Object] = {}

    def look() -> bool:
        found.update({task_of(pod): pod for pod in team.objects(PODS, selector)})
        return sorted(found) == TASKS[block]

    wait_until(look, 90, lambda: f"{block} has {sorted(found)}")
    return found


def task_of(pod: Object) -> str:
    """The task of a pod by its labels, whichever version it is of."""
    labels = pod["metadata"]["labels"]
    if "job_type" in labels:
        return f"{labels['job_type'].lower()}-{labels['task_index']}"
    return f"{labels['training.kubeflow.org/replica-type']}-{labels['training.kubeflow.org/replica-index']}"


def config_of(pod: Object) -> Object:
    """TF_CONFIG of a pod."""
    (container,) = pod["spec"]["containers"]
    config: Object = json.loads(next(one["value"] for one in container["env"] if one["name"] == "TF_CONFIG"))
    return config


def phase_of(team: Room, name: str) -> tuple[str, str]:
    """Phase and state of a TfJob."""
    status = team.get(TF_JOBS, name).get("status", {})
    return status.get("phase", ""), status.get("state", "")
