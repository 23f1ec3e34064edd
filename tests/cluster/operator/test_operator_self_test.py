"""`tfjob operator self-test` says PASSED only if the operator runs a job, and removes what it made in any case.

That it passes is seen on a real node, where pods run: test_chart_nodes.py.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from devcluster.client import Client
from support.cluster_golden import check_cluster_golden
from support.installed import Installed
from support.operating import operating
from support.room import Room, room
from support.running import ending, wait_until
from support.served import serve_tfjobs
from tfjob.api.dialect import TF_JOBS
from tfjob.api.resources import DEPLOYMENTS, JOBS, PODS
from tfjob.api.types import TFJOBS
from tfjob.operator.options import SelfTestOptions
from tfjob.operator.selftest.self_test import SelfTest, Trial


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


def error_of(said: str) -> str:
    """Return the error that a self-test ended with, without the random part of its job's name."""
    (line,) = [line for line in said.splitlines() if line.startswith("error: ")]
    return re.sub(r"tfjob-test-[0-9a-f]{6}", "JOB", line)


@pytest.mark.parametrize("label", ["tf_job_name", "training.kubeflow.org/job-name"])
def test_the_jobs_and_the_tensorboard_of_a_job_are_among_what_must_go(room_of_jobs: Room, label: str) -> None:
    resource = TF_JOBS if label == "tf_job_name" else TFJOBS
    name = f"left-of-{resource.group.partition('.')[0]}"
    test = SelfTest(room_of_jobs.client, Trial(name, room_of_jobs.namespace, SelfTestOptions(image="x")), print)
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
    assert "PASSED" not in said
    check_cluster_golden("self-test-without-operator", error_of(said))


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
    assert job in said
    assert "PASSED" not in said
    check_cluster_golden("self-test-failed", error_of(said))
