"""The Python client on this machine, with real jobs; synchronous, asynchronous, and within a running event loop."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tfjob
from tfjob import Client, InvalidManifest, InvalidScale, JobFailed, NotFound

HELLO = """
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {{name: {name}}}
spec:
  successPolicy: AllWorkers
  tfReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          containers:
          - name: tensorflow
            image: x
            command: [sh, -c, {command!r}]
"""


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TFJOB_HOME", str(tmp_path / "home"))
    with Client() as client:
        yield client
        for job in client.jobs():
            job.delete()


def manifest(folder: Path, name: str, command: str) -> Path:
    file = folder / f"{name}.yaml"
    file.write_text(HELLO.format(name=name, command=command))
    return file


def test_a_job_is_submitted_followed_and_awaited(client: Client, tmp_path: Path) -> None:
    job = client.submit(manifest(tmp_path, "hello", "echo one; echo two"))
    lines = [(line.replica, line.text) for line in job.logs(follow=True) if not line.notice]
    assert sorted(lines) == [(f"worker-{n}", text) for n in (0, 1) for text in ("one", "two")]
    assert job.wait(timeout=60).state == "Succeeded"
    assert [one.name for one in job.replicas] == ["worker-0", "worker-1"]
    assert "TFJobSucceeded" in [event.reason for event in job.events()]
    assert [one.id for one in client.jobs()] == [job.id] == ["hello.1"]
    assert client.job("hel").id == job.id
    assert job.failure is None
    job.delete()
    assert client.jobs() == []
    with pytest.raises(NotFound):
        job.status  # noqa: B018


def test_a_failed_job_raises_its_verdict(client: Client, tmp_path: Path) -> None:
    lines: list[str] = []
    with pytest.raises(JobFailed) as failed:
        client.run(manifest(tmp_path, "bad", "echo broken; exit 3"), on_line=lambda line: lines.append(line.text))
    assert (failed.value.verdict.exit_code, failed.value.verdict.last_lines) == (3, ["broken"])
    assert "broken" in lines
    assert client.job("bad").status.state == "Failed"


def test_a_known_error_raises_its_advice(client: Client, tmp_path: Path) -> None:
    with pytest.raises(JobFailed) as failed:
        client.run(manifest(tmp_path, "known", "echo There must be at least one ps.; exit 1"))
    assert "tfReplicaSpecs" in failed.value.verdict.advice
    assert failed.value.verdict.advice in str(failed.value)


def test_a_job_is_stopped_resumed_and_scaled(client: Client, tmp_path: Path) -> None:
    job = client.submit(manifest(tmp_path, "long", "exec sleep 3600"))
    job.stop()
    assert (job.status.state, job.status.reason) == ("Suspended", "Stopped")
    job.resume()
    job.scale(worker=1)
    assert len(job.replicas) == 1
    with pytest.raises(InvalidScale):
        job.scale(chief=1)


def test_a_run_that_takes_too_long_is_stopped(client: Client, tmp_path: Path) -> None:
    with pytest.raises(TimeoutError):
        client.run(manifest(tmp_path, "slow", "exec sleep 3600"), timeout=3)
    assert client.job("slow").status.state == "Suspended"


def test_a_script_runs_with_its_arguments(client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("import sys; print(sys.argv[1:])\n")
    lines: list[str] = []
    client.run("train.py", workers=1, arguments=["--lr", "0.1"], on_line=lambda line: lines.append(line.text))
    assert "['--lr', '0.1']" in lines


def test_a_manifest_is_checked_and_an_invalid_one_is_rejected(client: Client, tmp_path: Path) -> None:
    good = manifest(tmp_path, "good", "true")
    assert [problem for problem in client.check(good) if not problem.warning] == []
    bad = tmp_path / "bad.yaml"
    bad.write_text(good.read_text().replace("replicas: 2", "replicas: two"))
    problems = client.check(bad)
    assert any("replicas" in problem.path for problem in problems)
    with pytest.raises(InvalidManifest):
        client.submit(bad)
    assert client.jobs() == []


def test_the_client_works_inside_a_running_event_loop(client: Client, tmp_path: Path) -> None:
    async def cell() -> str:
        job = client.submit(manifest(tmp_path, "notebook", "true"))
        return job.wait(timeout=60).state

    assert asyncio.run(cell()) == "Succeeded"


def test_asynchronous_code_has_the_same_methods(client: Client, tmp_path: Path) -> None:
    async def story() -> str:
        async with tfjob.aio.Client() as own:
            job = await own.submit(manifest(tmp_path, "async", "echo hi"))
            lines = [line.text async for line in job.logs(follow=True) if not line.notice]
            assert lines == ["hi", "hi"]
            assert [one.name for one in await job.replicas()] == ["worker-0", "worker-1"]
            return (await job.wait(timeout=60)).state

    assert asyncio.run(story()) == "Succeeded"


def test_importing_the_client_loads_neither_backend_nor_parser() -> None:
    """They would take more than 100 ms of CPU; bench/overhead.py measures that."""
    program = "import sys, tfjob; tfjob.Client; print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    slow = {"yaml", "aiohttp", "click", "rich", "cryptography", "tfjob.kube", "tfjob.local", "tfjob.api.validation"}
    assert slow & set(shown.stdout.split()) == set()


def test_all_is_the_whole_public_surface() -> None:
    assert all(getattr(tfjob, name) is not None for name in tfjob.__all__)
    stub = Path(tfjob.__file__).with_suffix(".pyi").read_text()
    assert all(f" {name}\n" in stub for name in tfjob.__all__)
