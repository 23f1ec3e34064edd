"""Whatever stands in a manifest, a stored job, a kubeconfig or a watch: one clear refusal, soon, in little memory.

A case is a number: `pytest --seed 123 tests/faults/test_bad_input.py` begins at that one. CI tries some, the long form
(`--long`) ten thousand of each.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

import bad_input
from controller.memory_cluster import MemoryCluster
from kube.api_server import ApiServer, chunks, event, pod, pods, reply, silence
from tfjob.api.manifest import load
from tfjob.api.objects import Pod
from tfjob.api.origin import TF_JOB
from tfjob.api.problems import InvalidManifest
from tfjob.api.served import OLDER
from tfjob.api.types import API_VERSION, KIND, TFJob, TFJobStatus
from tfjob.controller.cluster import InvalidJob, Key
from tfjob.controller.controller import Controller
from tfjob.kube import kubeconfig
from tfjob.kube import reflector as reflector_module
from tfjob.kube.backoff import Backoff
from tfjob.kube.cached import JOB_DECODERS as DECODERS
from tfjob.kube.cached import CachedJob, decode_pod, job_of
from tfjob.kube.client import Client
from tfjob.kube.errors import ConfigError
from tfjob.kube.reflector import Reflector
from tfjob.kube.resources import PODS
from tfjob.kube.store import Store
from tfjob.operator import admission, conversion
from tfjob.plan.children import Settings

SECONDS = 3.0
"""For one manifest, while other tests run; nearly all of them take some milliseconds."""
MEGABYTES = 200
NOW = datetime(2026, 1, 1, tzinfo=UTC)
CHECK = """
import pathlib, resource, sys
from tfjob.api.manifest import load
load(pathlib.Path(sys.argv[1]).read_bytes())
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
SOME, ALL = 100, 10_000
Cases = Sequence[int]


@pytest.fixture(params=[pytest.param(SOME, id="some"), pytest.param(ALL, id="all", marks=pytest.mark.long)])
def cases(request: pytest.FixtureRequest, seed: int) -> Cases:
    """The numbers of the cases."""
    return range(seed, seed + int(request.param))


@contextmanager
def case(number: int) -> Iterator[None]:
    """One case: it takes little time, and if it fails its number is told."""
    begun = time.monotonic()
    try:
        yield
    except Exception as error:
        raise AssertionError(f"case {number}: {type(error).__name__}: {error}") from error
    took = time.monotonic() - begun
    assert took < SECONDS, f"case {number} took {took:.1f} s"


@pytest.mark.timeout(1200)
def test_every_manifest_is_read_or_refused_with_a_place(cases: Cases) -> None:
    refused = 0
    for number in cases:
        with case(number):
            manifest = load(bad_input.text(number), "job.yaml")
            for problem in manifest.problems:
                assert problem.path or problem.line, f"nowhere: {problem.message}"
                assert problem.message
                assert len(str(InvalidManifest([problem]))) < 2000, "a sentence, not the manifest again"
            refused += bool(manifest.errors)
    assert len(cases) * 0.5 < refused < len(cases), "the cases must be both: refused and read"


@pytest.mark.parametrize("kind", ["huge", "bomb"])
def test_five_megabytes_and_a_few_lines_that_stand_for_more_take_little_memory(kind: str, tmp_path: Path) -> None:
    bombs = (data for data in map(bad_input.text, range(1000)) if data.startswith(b"a0: ") and b"a25: " in data)
    (tmp_path / "job.yaml").write_bytes(bad_input.huge() if kind == "huge" else next(bombs))
    checked = subprocess.run([sys.executable, "-c", CHECK, tmp_path / "job.yaml"], capture_output=True, check=True)
    assert int(checked.stdout) / 1024 < MEGABYTES


@pytest.mark.timeout(1200)
def test_both_webhooks_answer_every_object(cases: Cases) -> None:
    for number in cases:
        value = stored(number)
        request = {"uid": "u", "operation": "CREATE", "object": value, "kind": {"kind": KIND}}
        with case(number):
            json.dumps(verdict := admission.answer({"request": request})["response"])
            assert verdict["allowed"] or all(cause["field"] for cause in verdict["status"]["details"]["causes"])
            for version in (API_VERSION, OLDER[number % len(OLDER)]):
                review = {"request": {"uid": "u", "desiredAPIVersion": version, "objects": [value]}}
                result = conversion.answer(review)["response"]["result"]
                assert result["status"] == "Success" or "tf-job-operator: " in result["message"]


def stored(number: int) -> dict[str, Any]:
    """A job as it may lie in an API server, which sees to its metadata whatever the schema of the CRD was."""
    value = bad_input.tree(number)
    value["metadata"] = {"name": "x", "namespace": "default", "uid": "u", "resourceVersion": "1"}
    return value


class StoredJobs(MemoryCluster):
    """A cluster whose one job is read from what an API server would have stored."""

    def __init__(self, cached: CachedJob) -> None:
        super().__init__()
        self._cached = cached
        self.status: TFJobStatus | None = None

    async def job(self, key: Key) -> TFJob | None:
        return job_of(self._cached)

    async def update_status(self, job: TFJob) -> TFJob:
        self.operations.append("update_status")
        self.status = job.status
        status = {"details": job.status} if self._cached.kind == TF_JOB else job.status
        self._cached = msgspec.structs.replace(self._cached, status=msgspec.json.encode(status))
        return job


@pytest.mark.timeout(1200)
def test_the_controller_decides_about_every_job_that_was_stored(cases: Cases) -> None:
    """What cannot be run ends as Failed with the field in its status; no pass fails, none begins again for ever."""
    refused = 0
    for number in cases:
        value = stored(number)
        value.pop("status", None)
        kind = TF_JOB if value.get("kind") == TF_JOB else KIND
        with case(number):
            cached = DECODERS[kind](msgspec.json.encode(value))
            cluster = StoredJobs(cached)
            controller = Controller(cluster, Settings(), clock=lambda: NOW)
            key = Key("default", "x", kind)
            for _ in range(4):
                asyncio.run(controller.reconcile(key))
            writes = len(cluster.operations)
            asyncio.run(controller.reconcile(key))
            assert len(cluster.operations) == writes, "it writes again though nothing changed"
            if (path := refused_path(cached)) is not None:
                refused += 1
                assert cluster.status is not None
                assert cluster.status.state == "Failed"
                assert path in cluster.status.message, cluster.status.message
    assert 0 < refused < len(cases)


def refused_path(cached: CachedJob) -> str | None:
    """The first field of a job that cannot be read as one, and that is ours to judge."""
    try:
        job_of(cached)
    except InvalidJob as invalid:
        return invalid.problems[0].path if invalid.job.spec.run_policy.managed_by is None else None
    return None


def test_every_kubeconfig_is_read_or_refused_with_its_file(cases: Cases, tmp_path: Path) -> None:
    sound: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "a",
        "clusters": [{"name": "a", "cluster": {"server": "https://a.example", "certificate-authority-data": "eA=="}}],
        "users": [{"name": "a", "user": {"exec": {"command": "x", "args": ["y"]}, "token": "t", "as-groups": ["g"]}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a", "namespace": "n"}}],
    }
    file = tmp_path / "config"
    file.write_text("users: &a [*a]")
    with pytest.raises(ConfigError, match="inside its own anchor"):
        kubeconfig.read([file])
    for number in cases:
        file.write_bytes(bad_input.text(number, [sound]))
        with case(number):
            refusal = ""
            try:
                kubeconfig.read([file])
            except ConfigError as error:
                refusal = error.message
            assert not refusal or str(file) in refusal


def test_a_watch_with_anything_in_it_goes_on(cases: Cases, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that are no events, objects that are no pods: the pods before and after them are seen."""
    monkeypatch.setattr(reflector_module, "Backoff", lambda: Backoff(0.01, 0.02))
    monkeypatch.setattr(reflector_module, "SHORT_SECONDS", 0.01)

    async def follow() -> None:
        async with ApiServer() as server, Client(server.access()) as client:
            server.lists.extend([reply(pods(5, pod("before", 1)))] * len(cases))
            for number in cases:
                server.watches.append(chunks(line_of(number)))
            server.watches.append(chunks(event("ADDED", pod("after", 10**6)), silence))
            store = Store[Pod]()
            following = asyncio.create_task(Reflector(client, PODS, decode_pod, store, "team").run())
            try:
                async with asyncio.timeout(60):
                    while ("team", "after") not in {(one.metadata.namespace, one.metadata.name) for one in store.all()}:
                        await asyncio.sleep(0.02)
            finally:
                assert not following.done(), following
                following.cancel()
                await asyncio.wait((following,))

    asyncio.run(follow())


def line_of(number: int) -> bytes:
    """An event of a watch with something wrong in it."""
    dice = random.Random(number)
    odd = dice.choice(bad_input.ODD)
    line = event(dice.choice(("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")), pod("odd", 6))
    whole = json.loads(line)
    match dice.randrange(5):
        case 0:
            return line[: dice.randrange(len(line))] + b"\n"
        case 1:
            return json.dumps({"type": odd, "object": whole["object"]}).encode() + b"\n"
        case 2:
            return json.dumps({"type": whole["type"], "object": odd}).encode() + b"\n"
        case 3:
            whole["object"][dice.choice(("metadata", "spec", "status"))] = odd
            return json.dumps(whole).encode() + b"\n"
    return bytes(dice.randrange(256) for _ in range(40)) + b"\n"
