"""`tfjob operator self-test` says PASSED only if the operator runs a job, and removes what it made in any case.

That it passes is seen on a real node, where pods run: test_chart_nodes.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from signal import SIGTERM

import pytest
import yaml

from devcluster.client import Client
from installed import Installed
from operating import free_port, operating
from room import Room, room
from running import ending, wait_until
from served import serve_tfjobs
from tfjob.api.defaults import serves_by_default
from tfjob.api.manifest.loader import load
from tfjob.kube.client.resources import DEPLOYMENTS, JOBS, PODS, TF_JOBS, TFJOBS, Resource
from tfjob.operator.selftest.self_test import SelfTest, Trial

TRIAL = Trial("trial", "default", image="registry.example/tf-job-operator:1", pull_secret="key")


@pytest.mark.parametrize("resource", [TFJOBS, TF_JOBS], ids=lambda one: one.api_version)
@pytest.mark.parametrize("test_image", ["", "registry.example/sample:1"])
def test_the_job_is_a_valid_one_of_either_kind(resource: Resource, test_image: str) -> None:
    trial = replace(TRIAL, test_image=test_image)
    manifest = load(yaml.safe_dump(trial.manifest(resource, 60)))
    manifest.raise_for_errors()
    (entry,) = manifest.entries
    replicas = entry.written.spec.tf_replica_specs
    assert set(replicas) == {"Master", "Worker", "PS"}
    assert entry.written.spec.tensor_board is not None
    assert serves_by_default(entry.written, "PS", replicas["PS"]) == bool(test_image), "it needs TensorFlow"
    assert entry.written.spec.tf_image == test_image


@pytest.mark.parametrize("resource", [TFJOBS, TF_JOBS], ids=lambda one: one.api_version)
def test_the_parameter_server_may_have_an_image_of_its_own_and_is_pulled_with_the_same_secret(
    resource: Resource,
) -> None:
    trial = replace(TRIAL, test_image="registry.example/sample:1", tf_image="registry.example/tensorflow:1")
    (entry,) = load(yaml.safe_dump(trial.manifest(resource, 60))).entries
    assert entry.written.spec.tf_image == "registry.example/tensorflow:1"
    templates = [one.template for one in entry.written.spec.tf_replica_specs.values()]
    assert all(one and one["spec"]["imagePullSecrets"] == [{"name": "key"}] for one in templates)


def test_the_chief_of_a_meeting_ends_when_it_has_reached_all_and_the_others_when_they_are_told() -> None:
    addresses = {kind: [f"127.0.0.1:{free_port()}"] for kind in ("master", "worker", "ps")}

    def start(kind: str) -> subprocess.Popen[str]:
        config = {"cluster": addresses, "task": {"type": kind, "index": 0}}
        command = [sys.executable, "-m", "tfjob.operator.selftest.rendezvous"]
        return subprocess.Popen(command, env={"TF_CONFIG": json.dumps(config)}, stdout=subprocess.PIPE, text=True)

    with ending(start("master")) as master, ending(start("worker")) as worker, ending(start("ps")) as server:
        said, _ = master.communicate(timeout=120)
        assert master.returncode == 0
        assert said.splitlines()[0] == "REPLICA_TYPE=master,REPLICA_INDEX=0"
        assert sorted(said.splitlines()[1:]) == sorted(f"reached {addresses[kind][0]}" for kind in ("worker", "ps"))
        for other in (worker, server):
            assert other.poll() is None
            other.send_signal(SIGTERM)
            other.communicate(timeout=120)
            assert other.returncode == 128 + SIGTERM


@pytest.fixture(scope="module")
def room_of_jobs(own_cluster: Client) -> Iterator[Room]:
    """A namespace of a cluster that knows TFJobs of kubeflow.org alone."""
    serve_tfjobs(own_cluster)
    with room(own_cluster.kubeconfig, own_cluster.namespace()) as found:
        yield found


class Run:
    """A self-test at work in a namespace."""

    def __init__(self, room: Room, process: subprocess.Popen[str]) -> None:
        self.room = room
        self.process = process

    def job(self) -> str:
        """The name of the job, once it is there."""
        wait_until(lambda: bool(self.room.objects(TFJOBS)) or self.process.poll() is not None, 60)
        assert self.process.poll() is None, self.process.communicate()
        name: str = self.room.objects(TFJOBS)[0]["metadata"]["name"]
        return name

    def end(self) -> tuple[int, str]:
        """Its exit code, and what it said."""
        said, _ = self.process.communicate(timeout=180)
        assert not self.room.objects(TFJOBS)
        return self.process.returncode, said


@contextmanager
def self_test(tool: Installed, client: Client, room: Room, home: Path, *words: str) -> Iterator[Run]:
    there = Installed(tool.command, {"KUBECONFIG": str(client.kubeconfig)})
    command = ("operator", "self-test", "--image=x", f"--namespace={room.namespace}", *words)
    with ending(there.start(home, *command)) as process:
        yield Run(room, process)


@pytest.mark.parametrize("label", ["tf_job_name", "training.kubeflow.org/job-name"])
def test_the_jobs_and_the_tensorboard_of_a_job_are_among_what_must_go(room_of_jobs: Room, label: str) -> None:
    resource = TF_JOBS if label == "tf_job_name" else TFJOBS
    name = f"left-of-{resource.group.partition('.')[0]}"
    test = SelfTest(room_of_jobs.client, Trial(name, room_of_jobs.namespace, image="x"), print)
    assert room_of_jobs.do(lambda: test.left(resource)) is None
    labels, board = {label: name}, {"app": "tensorboard", "tf_job_name": name}
    spec = {"schedulerName": "nobody", "containers": [{"name": "a", "image": "x"}]}
    template = {"metadata": {"labels": board}, "spec": spec}
    deployment = {"replicas": 0, "selector": {"matchLabels": board}, "template": template}
    wrapping = {"suspend": True, "template": {"spec": {**spec, "restartPolicy": "Never"}}}
    room_of_jobs.make(PODS, {"metadata": {"name": f"{name}-pod", "labels": board}, "spec": spec})
    room_of_jobs.make(JOBS, {"metadata": {"name": name, "labels": labels}, "spec": wrapping})
    room_of_jobs.make(DEPLOYMENTS, {"metadata": {"name": name, "labels": labels}, "spec": deployment})
    left = room_of_jobs.do(lambda: test.left(resource)) or ""
    assert sorted(left.split(", ")) == [f"Deployment {name}", f"Job {name}", f"Pod {name}-pod"]


def test_without_an_operator_it_says_so(
    tool: Installed, own_cluster: Client, room_of_jobs: Room, tmp_path: Path
) -> None:
    with self_test(tool, own_cluster, room_of_jobs, tmp_path, "--timeout=2s") as run:
        code, said = run.end()
    assert code == 4
    assert "does not end after 2 s: no operator looks after it" in said
    assert "PASSED" not in said


def test_a_job_that_fails_does_not_pass(
    tool: Installed, own_cluster: Client, room_of_jobs: Room, tmp_path: Path
) -> None:
    with (
        operating(own_cluster.kubeconfig, f"--namespace={room_of_jobs.namespace}"),
        self_test(tool, own_cluster, room_of_jobs, tmp_path) as run,
    ):
        job = run.job()
        room_of_jobs.all_run(job, "master-0", "worker-0", "ps-0")
        room_of_jobs.ends(f"{job}-master-0", 3)
        code, said = run.end()
    assert code == 1
    assert f"error: TFJob {job} failed: " in said
    assert "PASSED" not in said
