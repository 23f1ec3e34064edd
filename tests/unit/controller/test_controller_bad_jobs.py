"""Whatever stands in a job that was stored, or is about to be: the webhooks answer, and the controller decides.

The cases are those of `test_bad_input.py`.
"""

from __future__ import annotations

import asyncio
import io
import logging
import re
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.web import Application, Request

from support import bad_input
from support.bad_cases import Cases
from support.controller.memory_cluster import MemoryCluster
from tfjob.api.dialect import TF_JOB
from tfjob.api.text import shallow
from tfjob.api.types import API_VERSION, KIND, TFJob, TFJobStatus
from tfjob.api.versions.round_trip import OLDER
from tfjob.controller.controller import Controller
from tfjob.controller.kind import Invalid, Key, Stored
from tfjob.kube.cache.decode import decode_owner
from tfjob.kube.jobs.jobs import job_of
from tfjob.operator.options import CONVERSION_PATH, WEBHOOK_PATH
from tfjob.operator.webhook.server import webhook_app
from tfjob.plan.kind import TFJobKind, TfJobKind

pytestmark = pytest.mark.faults

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
Webhook = TestClient[Request, Application]


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
    """The verdict on a job; a rejection names a field for each cause."""
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
            reasons = rb"Input data was truncated|.*utf-16 surrogate pair|maximum recursion depth"
            assert re.match(rb"invalid review: (" + reasons + rb")", text), text
            return None
        assert response.status == 200, text
        # It may be nested as deeply as what was asked.
        return shallow.decoded(msgspec.json.Decoder(), text)


def stored(number: int) -> dict[str, Any]:
    """A job as it may lie in an API server, which sees to its metadata whatever the schema of the CRD was."""
    value = bad_input.tree(number)
    value["metadata"] = {"name": "x", "namespace": "default", "uid": "u", "resourceVersion": "1"}
    return value


KINDS = {KIND: TFJobKind(), TF_JOB: TfJobKind()}
PASSES = 12
"""In which a job must come to rest: thousands of pods are made in several."""


class StoredJobs(MemoryCluster):
    """A cluster whose one job is read from what an API server would have stored."""

    def __init__(self, cached: Stored) -> None:
        super().__init__()
        self._cached = cached
        self.status: TFJobStatus | None = None

    async def owner(self, key: Key) -> TFJob:
        return KINDS[key.kind].decode(self._cached)

    async def update_status(self, key: Key, owner: Any) -> Any:
        self.operations.append("update_status")
        self.status = owner.status
        status = {"details": owner.status} if self._cached.kind == TF_JOB else owner.status
        self._cached = msgspec.structs.replace(self._cached, status=msgspec.json.encode(status))
        return owner


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
            cached = decode_owner(kind, bad_input.written(value).replace(rb"\ud800", rb"\ufffd"))
            cluster = StoredJobs(cached)
            controller = Controller(cluster, KINDS.values(), clock=lambda: NOW)
            key = Key("default", "x", kind)
            for _ in range(PASSES):
                writes = len(cluster.operations)
                asyncio.run(controller.reconcile(key))
                if len(cluster.operations) == writes:
                    break
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


def refused_path(cached: Stored) -> str | None:
    """The first field of a job that cannot be read as one, and that is ours to judge."""
    job = job_of(cached)
    try:
        KINDS[cached.kind].decode(cached)
    except Invalid as invalid:
        return invalid.problems[0].path if job.spec.run_policy.managed_by is None else None
    return None
