"""Kubernetes Events: written in the background, few of them, and never in the way of more important requests.

Equal events about one object become one Event with a count. Events of one reason that arrive together ("Created pod:
a", "Created pod: b") become one Event that lists all names. When the queue is full, events are dropped and counted.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tfjob.api.objects import Object
from tfjob.api.resources import CORE_EVENTS
from tfjob.controller.actions import Event
from tfjob.kube.access.errors import KubeError, NotFound
from tfjob.kube.client.client import Client

logger = logging.getLogger(__name__)

COMPONENT = "tfjob-controller"
"""The source that events of training-operator have too."""
GATHER_SECONDS = 0.5
"""How long events wait for others that they can be merged with."""
QUEUE_LIMIT, MEMORY_LIMIT = 10_000, 4_096
MESSAGE_LENGTH = 1000

Group = tuple[str, str, str]
"""The key of events that become one Event: the subject's uid, the reason, and the message or its common beginning."""


@dataclass
class _Pending:
    """Events that wait to be written; `subjects` are the names after the common beginning of their messages."""

    about: Object
    event: Event
    subjects: list[str]
    first: datetime = field(default_factory=lambda: datetime.now(UTC))
    count: int = 1

    @property
    def message(self) -> str:
        if len(self.subjects) < 2:
            return self.event.message
        text = f"{self.event.message.partition(': ')[0]}s: {', '.join(self.subjects)}"
        return text if len(text) <= MESSAGE_LENGTH else f"{text[: MESSAGE_LENGTH - 4]} ..."


class EventLog:
    """A queue of events, written one at a time."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.instance = f"{COMPONENT}-{uuid.uuid4().hex[:5]}"
        self.dropped = 0
        self._pending: dict[Group, _Pending] = {}
        self._written: OrderedDict[Group, tuple[str, int]] = OrderedDict()
        """Name and count of existing Events: an equal event only increases the count."""
        self._wake = asyncio.Event()

    def add(self, about: Object, event: Event) -> None:
        """Queue an event; never waits and never fails."""
        beginning, subject = _parts(event)
        group = (about.metadata.uid, event.reason, beginning)
        waiting = self._pending.get(group)
        if waiting is not None and subject:
            waiting.subjects.append(subject)
        elif waiting is not None:
            waiting.count += 1
        elif len(self._pending) >= QUEUE_LIMIT:
            self.dropped += 1
        else:
            self._pending[group] = _Pending(about, event, [subject] if subject else [])
            self._wake.set()

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            await asyncio.sleep(GATHER_SECONDS)
            await self.flush()

    async def flush(self) -> None:
        """Write the queue, one event at a time, because jobs wait for other requests; drop what cannot be written."""
        gathered, self._pending = self._pending, {}
        for pending in gathered.values():
            try:
                await self._write(pending)
            except KubeError as error:
                self.dropped += 1
                logger.debug("cannot write an event about %s: %s", pending.about.metadata.name, error)

    async def _write(self, pending: _Pending) -> None:
        group = (pending.about.metadata.uid, pending.event.reason, pending.message)
        name, count = self._written.get(group, ("", 0))
        if name:
            change = {"count": count + pending.count, "lastTimestamp": _stamp(datetime.now(UTC))}
            with suppress(NotFound):  # Events live for an hour
                await self.client.patch(CORE_EVENTS, pending.about.metadata.namespace, name, change)
                self._written[group] = name, count + pending.count
                return
        name = f"{pending.about.metadata.name}.{uuid.uuid4().hex[:16]}"
        body = _event(pending, name, self.instance)
        await self.client.create(CORE_EVENTS, pending.about.metadata.namespace, body)
        self._written[group] = name, pending.count
        if len(self._written) > MEMORY_LIMIT:
            self._written.popitem(last=False)


def _parts(event: Event) -> tuple[str, str]:
    """Return the common beginning of a message and the name after it, if such messages can be merged."""
    if not event.reason.startswith(("SuccessfulCreate", "SuccessfulDelete")):
        return event.message, ""
    beginning, _, subject = event.message.partition(": ")
    return beginning, subject


def _event(pending: _Pending, name: str, instance: str) -> dict[str, Any]:
    about, event, first = pending.about, pending.event, _stamp(pending.first)
    return CORE_EVENTS.manifest(
        {"name": name, "namespace": about.metadata.namespace},
        involvedObject={
            "apiVersion": about.api_version,
            "kind": about.kind,
            "namespace": about.metadata.namespace,
            "name": about.metadata.name,
            "uid": about.metadata.uid,
            "resourceVersion": about.metadata.resource_version,
        },
        reason=event.reason,
        message=pending.message,
        type="Warning" if event.warning else "Normal",
        source={"component": COMPONENT},
        reportingComponent=COMPONENT,
        reportingInstance=instance,
        firstTimestamp=first,
        lastTimestamp=first,
        count=pending.count,
    )


def _stamp(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
