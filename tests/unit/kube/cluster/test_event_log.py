"""Events: few, written in the background, and with the messages that people search for."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from support.golden import Wording
from tfjob.api.objects import ObjectMeta
from tfjob.api.types import TFJob
from tfjob.controller.actions import Event
from tfjob.kube.access.errors import NotFound, Unreachable
from tfjob.kube.client.client import Client
from tfjob.kube.cluster import event_log
from tfjob.kube.cluster.event_log import EventLog

JOB = TFJob(metadata=ObjectMeta(name="j", namespace="n", uid="u", resource_version="5"))


class Server:
    """An API server that stores Events; tests/cluster has the real one."""

    def __init__(self) -> None:
        self.events: dict[str, dict[str, Any]] = {}
        self.requests = 0
        self.down = False

    async def create(self, resource: object, namespace: str, body: dict[str, Any]) -> None:
        self.requests += 1
        if self.down:
            raise Unreachable("no answer")
        self.events[body["metadata"]["name"]] = body

    async def patch(self, resource: object, namespace: str, name: str, body: dict[str, Any]) -> None:
        self.requests += 1
        if name not in self.events:
            raise NotFound(404)
        self.events[name].update(body)

    def told(self) -> list[tuple[str, str, int]]:
        return [(event["reason"], event["message"], event["count"]) for event in self.events.values()]


def log_to(server: Server) -> EventLog:
    return EventLog(cast(Client, server))


def test_children_that_are_created_together_share_one_event(wording: Wording) -> None:
    server = Server()
    log = log_to(server)
    for name in ("j-chief-0", "j-worker-0"):
        log.add(JOB, Event("SuccessfulCreatePod", f"Created pod: {name}"))
    log.add(JOB, Event("SuccessfulCreateService", "Created service: j-chief-0"))
    asyncio.run(log.flush())
    assert [(reason, count) for reason, _, count in server.told()] == [
        ("SuccessfulCreatePod", 1),
        ("SuccessfulCreateService", 1),
    ]
    wording(*(message for _, message, _ in server.told()))


def test_equal_events_increase_the_count_of_the_first() -> None:
    server = Server()
    log = log_to(server)
    for _ in range(3):
        log.add(JOB, Event("FailedCreatePod", "Error creating: exceeded quota", warning=True))
        log.add(JOB, Event("FailedCreatePod", "Error creating: exceeded quota", warning=True))
        asyncio.run(log.flush())
    assert server.told() == [("FailedCreatePod", "Error creating: exceeded quota", 6)]


def test_an_event_that_expired_is_written_again() -> None:
    server = Server()
    log = log_to(server)
    log.add(JOB, Event("TFJobRestarting", "again", warning=True))
    asyncio.run(log.flush())
    server.events.clear()
    log.add(JOB, Event("TFJobRestarting", "again", warning=True))
    asyncio.run(log.flush())
    assert server.told() == [("TFJobRestarting", "again", 1)]


def test_an_event_has_the_fields_that_training_operator_writes() -> None:
    server = Server()
    log = log_to(server)
    log.add(JOB, Event("TFJobFailed", "TFJob n/j has failed because worker-0 exited 3.", warning=True))
    asyncio.run(log.flush())
    (event,) = server.events.values()
    assert event["involvedObject"] == {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "namespace": "n",
        "name": "j",
        "uid": "u",
        "resourceVersion": "5",
    }
    assert (event["type"], event["source"]) == ("Warning", {"component": "tfjob-controller"})


def test_a_server_that_is_down_costs_one_request_per_event() -> None:
    server = Server()
    server.down = True
    log = log_to(server)
    for number in range(5):
        log.add(JOB, Event("TFJobRestarting", f"incident {number}"))
    asyncio.run(log.flush())
    assert (server.requests, log.dropped) == (5, 5)


def test_events_beyond_the_limit_are_dropped_and_counted(monkeypatch: Any) -> None:
    monkeypatch.setattr(event_log, "QUEUE_LIMIT", 3)
    server = Server()
    log = log_to(server)
    for number in range(5):
        log.add(JOB, Event("TFJobRestarting", f"incident {number}"))
    asyncio.run(log.flush())
    assert (len(server.events), log.dropped) == (3, 2)


def test_a_message_that_names_too_many_is_cut() -> None:
    server = Server()
    log = log_to(server)
    for number in range(1000):
        log.add(JOB, Event("SuccessfulCreatePod", f"Created pod: j-worker-{number}"))
    asyncio.run(log.flush())
    (event,) = server.events.values()
    assert len(event["message"]) <= event_log.MESSAGE_LENGTH
    assert event["message"].endswith(" ...")
