"""Whatever stands in a manifest, a stored job, a kubeconfig or a watch: one clear refusal, soon, in little memory.

A case is a number: `pytest --seed 123 tests/faults/test_bad_input.py` begins at that one. CI tries some, the long form
(`--long`) ten thousand of each.
"""

from __future__ import annotations

import asyncio
import gc
import io
import json
import logging
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.web import Application, Request, StreamResponse

import bad_input
from controller.memory_cluster import MemoryCluster
from kube.api_server import Answer, ApiServer, chunks, event, pod, pods, reply, silence
from tfjob.api.objects import Pod
from tfjob.api.origin import TF_JOB
from tfjob.api.served import OLDER
from tfjob.api.types import API_VERSION, KIND, TFJob, TFJobStatus
from tfjob.cli import outcome
from tfjob.cli.main import cli
from tfjob.controller.cluster import InvalidJob, Key
from tfjob.controller.controller import Controller
from tfjob.kube import cached as cached_module
from tfjob.kube import kubeconfig, shallow
from tfjob.kube import reflector as reflector_module
from tfjob.kube.backoff import Backoff
from tfjob.kube.cached import JOB_DECODERS as DECODERS
from tfjob.kube.cached import CachedJob, job_of
from tfjob.kube.client import Client
from tfjob.kube.errors import ConfigError
from tfjob.kube.reflector import Reflector
from tfjob.kube.resources import PODS
from tfjob.kube.store import Store
from tfjob.operator.names import CONVERSION_PATH, WEBHOOK_PATH
from tfjob.operator.webhook import webhook_app
from tfjob.plan.children import Settings

pytestmark = pytest.mark.faults

SECONDS = 3.0
"""Of computing, for one case; nearly all of them take some milliseconds, five megabytes less than one second."""
MEGABYTES = 200
"""By which the memory of a process may grow, whatever it reads."""
NOW = datetime(2026, 1, 1, tzinfo=UTC)
RUNNING: dict[str, Any] = {
    "state": "Running",
    "reason": "TFJobRunning",
    "message": "1 of 1 replicas run",
    "restarts": 1,
    "attempt": 1,
    "conditions": [{"type": "Running", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    "replicaStatuses": {"Worker": {"active": 1}},
    "started": {"worker": "0"},
    "completedIndexes": {"worker": "0"},
    "taskRestarts": {"worker-0": 1},
    "lastRestart": {"time": "2026-01-01T00:00:00Z"},
    "startTime": "2026-01-01T00:00:00Z",
}
CHECK = """
import pathlib, resource, sys
from tfjob.api.manifest import load
load(pathlib.Path(sys.argv[1]).read_bytes())
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
SOME, ALL = 100, 10_000
Webhook = TestClient[Request, Application]


@dataclass
class Cases:
    """The numbers of the cases, how long the slowest took, and by how much the memory of the process grew."""

    numbers: range
    slowest: float = 0.0
    memory: int = field(default_factory=lambda: forgotten_peak())
    drawn: Counter[str] = field(default_factory=lambda: Counter(bad_input.DRAWN))

    def __iter__(self) -> Iterator[int]:
        return iter(self.numbers)

    def __len__(self) -> int:
        return len(self.numbers)

    @contextmanager
    def case(self, number: int) -> Iterator[None]:
        """One case: it takes little time, and if it fails its number is told."""
        begun = time.process_time()
        try:
            yield
        except Exception as error:
            raise AssertionError(f"case {number}: {type(error).__name__}: {error}") from error
        took = time.process_time() - begun
        self.slowest = max(self.slowest, took)
        assert took < SECONDS, f"case {number} took {took:.1f} s"

    def must_have_drawn(self, *kinds: str) -> None:
        """Checks that the cases were of all kinds."""
        drawn = bad_input.DRAWN - self.drawn
        rare = {"huge"} if len(self) < 10 * bad_input.ONE_IN else set()
        assert not {*kinds} - drawn.keys() - rare, f"never drawn: {set(kinds) - drawn.keys()}"

    def must_be_bounded(self) -> None:
        """Checks the memory that they took, and prints the figures."""
        grown = (peak() - self.memory) / 2**20
        print(f"{len(self)} cases, the slowest {self.slowest:.2f} s; memory grew by {grown:.0f} MB at most")
        assert grown < MEGABYTES


def peak() -> int:
    """The most memory that this process had since its peak was forgotten, in bytes."""
    (kilobytes,) = re.findall(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(kilobytes) * 1024


def forgotten_peak() -> int:
    """Has the kernel forget the peak of earlier tests, under which anything would fit; what is in use now, in bytes."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    return peak()


@pytest.fixture(params=[pytest.param(SOME, id="some"), pytest.param(ALL, id="all", marks=pytest.mark.long)])
def cases(request: pytest.FixtureRequest, seed: int) -> Iterator[Cases]:
    """The cases of a run: few, or all of them."""
    cases = Cases(range(seed, seed + int(request.param)))
    yield cases
    cases.must_be_bounded()


def test_a_reader_that_takes_too_much_memory_is_found() -> None:
    """Also after a test that took more."""
    b"x" * (2 * MEGABYTES * 2**20)
    cases = Cases(range(1))
    b"x" * ((MEGABYTES + 50) * 2**20)
    with pytest.raises(AssertionError):
        cases.must_be_bounded()


@pytest.mark.timeout(3600)
def test_every_manifest_is_read_or_refused_with_a_place(cases: Cases, tmp_path: Path) -> None:
    """By the command itself, for people and for programs."""
    refused, file = 0, tmp_path / "job.yaml"
    for number in cases:
        file.write_bytes(bad_input.text(number))
        with cases.case(number):
            code, text = checked(str(file))
            assert all(len(line) < 2000 for line in text.splitlines()), "a sentence, not the manifest again"
        with cases.case(number):
            code_again, listed = checked(str(file), "-o", "json")
            problems = json.loads(listed)["items"]
            for problem in problems:
                assert problem["path"] or problem["line"], f"nowhere: {problem['message']}"
                assert problem["message"]
            faults = [problem for problem in problems if not problem.get("warning")]
            assert code == code_again == (outcome.BAD_INPUT if faults else outcome.SUCCEEDED), text
            assert text.count(str(file)) >= len(problems)
            refused += bool(faults)
    assert len(cases) * 0.5 < refused < len(cases), "the cases must be both: refused and read"
    cases.must_have_drawn(*bad_input.TEXTS, *bad_input.CHANGES, "huge")


def checked(*words: str) -> tuple[int, str]:
    """How `tfjob check` ends, and what it prints, in this process."""
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with redirect_stdout(printed), redirect_stderr(printed), pytest.raises(SystemExit) as ended:
        outcome.guarded(partial(cli.main, ["check", *words]))
    printed.flush()
    text = printed.buffer.getvalue().decode()
    assert ended.value.code in (outcome.SUCCEEDED, outcome.BAD_INPUT), text
    return int(ended.value.code), text


@pytest.mark.parametrize("kind", ["huge", "bomb"])
def test_five_megabytes_and_a_few_lines_that_stand_for_more_take_little_memory(kind: str, tmp_path: Path) -> None:
    bombs = (data for data in map(bad_input.text, range(1000)) if data.startswith(b"a0: ") and b"a25: " in data)
    (tmp_path / "job.yaml").write_bytes(bad_input.huge() if kind == "huge" else next(bombs))
    checked = subprocess.run([sys.executable, "-c", CHECK, tmp_path / "job.yaml"], capture_output=True, check=True)
    assert int(checked.stdout) / 1024 < MEGABYTES


@pytest.mark.timeout(3600)
def test_both_webhooks_answer_every_object(cases: Cases, caplog: pytest.LogCaptureFixture) -> None:
    """Over HTTP, as an API server asks; what is no review gets a 400, and no question ends in a fault of ours."""
    caplog.set_level(logging.CRITICAL)  # of conversions that fail a traceback is logged

    said = Counter[str]()

    async def ask() -> None:
        async with TestClient(TestServer(webhook_app())) as client:
            for number in cases:
                value = stored(number)
                with cases.case(number):
                    said[await judged(client, value)] += 1
                    for version in (API_VERSION, OLDER[number % len(OLDER)]):
                        said[await converted(client, value, version)] += 1

    asyncio.run(ask())
    print(dict(said))
    assert {"allowed", "refused", "Success", "Failure"} <= said.keys()
    assert said["no review"] < 0.1 * said.total(), "most must be judged"
    cases.must_have_drawn(*bad_input.CHANGES)


async def judged(client: Webhook, value: Any) -> str:
    """The verdict on a job; a refusal names a field for each cause."""
    request = {"uid": "u", "operation": "CREATE", "object": value, "kind": {"kind": KIND}}
    if (answer := await asked(client, WEBHOOK_PATH, {"request": request})) is None:
        return "no review"
    verdict = answer["response"]
    if verdict["allowed"]:
        return "allowed"
    causes = verdict["status"]["details"]["causes"]
    assert causes
    assert all(cause["field"] for cause in causes), causes
    return "refused"


async def converted(client: Webhook, value: Any, version: str) -> str:
    """How a conversion ended; a failure names the field that is in its way."""
    review = {"request": {"uid": "u", "desiredAPIVersion": version, "objects": [value]}}
    if (answer := await asked(client, CONVERSION_PATH, review)) is None:
        return "no review"
    result = answer["response"]["result"]
    if result["status"] == "Failure":
        assert re.match(r"tf-job-operator: (apiVersion|spec)\b", result["message"]), result["message"]
        assert len(result["message"]) < 500
    return str(result["status"])


async def asked(client: Webhook, path: str, review: dict[str, Any]) -> Any:
    """The answer to a review; None if it was none."""
    async with client.post(path, data=io.BytesIO(bad_input.written(review))) as response:
        text = await response.read()
        if response.status == 400:
            assert re.match(rb"no review: (Input data was truncated|.*utf-16 surrogate pair)", text), text
            return None
        assert response.status == 200, text
        # It may be nested as deeply as what was asked.
        return shallow.decoded(msgspec.json.Decoder(), text)


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
    """What cannot be run ends as Failed with the field in its status; no pass fails, none begins again for ever.

    Also if the status is odd, which only somebody with the right to write it can have done.
    """
    refused = 0
    for number in cases:
        value = stored(number)
        value.pop("status", None)
        if number % 3 == 0:
            value["status"] = odd_status(number)
        kind = TF_JOB if value.get("kind") == TF_JOB else KIND
        with cases.case(number):
            # An API server has no half characters: it puts another one in their place.
            cached = DECODERS[kind](bad_input.written(value).replace(rb"\ud800", rb"\ufffd"))
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
                # With a status that is not ours it was begun by another operator, and goes on without us.
                left_alone = number % 3 == 0 and cluster.status.reason == "InvalidSpec"
                assert left_alone or cluster.status.state == "Failed", cluster.status
                assert path in cluster.status.message, cluster.status.message
    assert 0 < refused < len(cases)


def odd_status(number: int) -> Any:
    """A status with something wrong in it, also all of it."""
    return bad_input.tree(number, [{"status": RUNNING}]).get("status")


def refused_path(cached: CachedJob) -> str | None:
    """The first field of a job that cannot be read as one, and that is ours to judge."""
    try:
        job_of(cached)
    except InvalidJob as invalid:
        return invalid.problems[0].path if invalid.job.spec.run_policy.managed_by is None else None
    return None


@pytest.mark.timeout(1200)
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
        with cases.case(number):
            refusal = ""
            try:
                kubeconfig.read([file])
            except ConfigError as error:
                refusal = error.message
            place = re.compile(rf"{re.escape(str(file))}(:| is no kubeconfig:).*(line \d+|at `\$)", re.DOTALL)
            assert not refusal or place.match(refusal), refusal
            assert len(refusal) < 1000
    cases.must_have_drawn(*bad_input.TEXTS, *bad_input.CHANGES)


@pytest.mark.timeout(3600)
def test_a_watch_with_anything_in_it_goes_on(cases: Cases, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that are no events, objects of other shapes: what comes before and after them is seen, of every kind."""
    monkeypatch.setattr(reflector_module, "Backoff", lambda: Backoff(0.01, 0.02))
    monkeypatch.setattr(reflector_module, "SHORT_SECONDS", 0.01)
    monkeypatch.setattr(reflector_module, "PACE_SECONDS", 0.0)

    async def follow(numbers: range, decode: Callable[[bytes | msgspec.Raw], Pod]) -> None:
        async with ApiServer() as server, Client(server.access()) as client:
            server.lists.extend([reply(pods(5, pod("before", 1)))] * len(numbers))
            server.watches.extend(odd_watch(number) for number in numbers)
            server.watches.append(chunks(event("ADDED", pod("after", 10**6)), silence))
            store = Store[Pod]()
            following = asyncio.create_task(Reflector(client, PODS, decode, store, "team").run())
            try:
                async with asyncio.timeout(60 + len(numbers) * 0.3):
                    while "after" not in {one.metadata.name for one in store.all()}:
                        await asyncio.sleep(0.02)
            finally:
                assert not following.done(), following
                following.cancel()
                await asyncio.wait((following,))

    decoders = [decode for name, decode in vars(cached_module).items() if name.startswith("decode_")]
    assert len(decoders) > 5
    for first, decode in enumerate(decoders):
        asyncio.run(follow(cases.numbers[first :: len(decoders)], decode))


def odd_watch(number: int) -> Answer:
    """A watch that sends one such line, which is made when it is asked for: all together they would fill the memory."""

    async def answer(request: Request) -> StreamResponse:
        return await chunks(line_of(number))(request)

    return answer


def line_of(number: int) -> bytes:
    """An event of a watch with something wrong in it."""
    dice = random.Random(number)
    odd = dice.choice(bad_input.ODD)
    line = event(dice.choice(("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")), pod("odd", 6))
    whole = json.loads(line)
    match dice.randrange(7):
        case 0:
            return line[: dice.randrange(len(line))] + b"\n"
        case 1:
            return bad_input.written({"type": odd, "object": whole["object"]}) + b"\n"
        case 2:
            return bad_input.written({"type": whole["type"], "object": odd}) + b"\n"
        case 3:
            whole["object"][dice.choice(("metadata", "spec", "status"))] = odd
            return bad_input.written(whole) + b"\n"
        case 4:
            whole["object"]["spec"] = f"@nested {dice.choice((100, 900, 5000, 100_000))}@"
            return bad_input.written(whole) + b"\n"
        case 5:
            whole["object"]["metadata"]["annotations"] = {"big": "x" * dice.choice((1000, 1_000_000))}
            return json.dumps(whole).encode() + b"\n"
    return bytes(dice.randrange(256) for _ in range(40)) + b"\n"
