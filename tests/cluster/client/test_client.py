"""The Python client against a real API server with the operator; no node, so the test moves the pods."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import tfjob
from devcluster.client import Client as ControlPlane
from support.command_line import MANIFESTS
from support.operating import operating
from support.room import Room, room
from support.running import wait_until
from support.served import serve_tfjobs

pytestmark = pytest.mark.timeout(300)
SLEEPER = MANIFESTS / "sleeper.yaml"


@pytest.fixture(scope="module")
def team(control_plane: ControlPlane) -> Iterator[Room]:
    """A namespace with an operator; its pods do what a test says."""
    serve_tfjobs(control_plane)
    namespace = control_plane.namespace("client")
    with (
        operating(control_plane.kubeconfig, f"--namespace={namespace}"),
        room(control_plane.kubeconfig, namespace) as found,
    ):
        yield found
    control_plane.delete_namespace(namespace)


@pytest.fixture
def client(
    control_plane: ControlPlane, team: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tfjob.Client]:
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig))
    monkeypatch.setenv("TFJOB_HOME", str(tmp_path))
    with tfjob.Client("k8s", team.namespace) as client:
        yield client


def test_a_job_is_submitted_watched_and_waited_for(client: tfjob.Client, team: Room) -> None:
    assert client.check(SLEEPER) == []
    job = client.submit(SLEEPER, name="waited")
    team.all_run("waited", "worker-0")
    with pytest.raises(TimeoutError):
        job.wait(timeout=0.5)
    team.until("waited", "Running")
    assert (job.status.state, job.status.ready) == ("Running", "1/1")
    assert [(replica.name, replica.phase) for replica in job.replicas] == [("worker-0", "Running")]
    team.ends("waited-worker-0")
    assert job.wait(timeout=90).state == "Succeeded"
    assert job.failure is None
    wait_until(lambda: any(event.reason == "SuccessfulCreatePod" for event in job.events()), 60)
    assert "waited" in [one.name for one in client.jobs()]
    job.delete()
    with pytest.raises(tfjob.NotFound):
        client.job("waited")


def test_a_failed_job_raises_its_verdict(client: tfjob.Client, team: Room) -> None:
    job = client.submit(SLEEPER, name="fails")
    team.all_run("fails", "worker-0")
    team.ends("fails-worker-0", 3, message="loading\nValueError: no data")
    with pytest.raises(tfjob.JobFailed) as failed:
        job.wait(timeout=90)
    verdict = failed.value.verdict
    assert (verdict.replica, verdict.exit_code) == ("worker-0", 3)
    assert verdict == job.failure
    job.delete()


def test_a_job_is_suspended_scaled_and_resumed(client: tfjob.Client, team: Room) -> None:
    job = client.submit(SLEEPER, name="changed")
    team.all_run("changed", "worker-0")
    job.suspend()
    assert (job.status.state, job.replicas[0].phase) == ("Suspended", "-")
    assert job.wait(timeout=90).state == "Suspended"
    with pytest.raises(tfjob.InvalidScale):
        job.scale(chief=1)
    job.scale(worker=2)
    job.resume()
    team.all_run("changed", "worker-0", "worker-1")
    team.until("changed", "Running")
    assert job.status.ready == "2/2"
    job.delete()


def test_asynchronous_code_has_the_same_methods(client: tfjob.Client, team: Room) -> None:
    async def main() -> str:
        async with tfjob.aio.Client("k8s", team.namespace) as own:
            job = await own.submit(SLEEPER, name="async")
            await asyncio.to_thread(team.all_run, "async", "worker-0")
            await asyncio.to_thread(team.ends, "async-worker-0")
            state = (await job.wait(timeout=90)).state
            await job.delete()
            return state

    assert asyncio.run(main()) == "Succeeded"
