"""Follow all objects of one kind: list them, then watch forever, through all faults of the API server and the network.

A watch that ends is resumed at its last version. If the server no longer knows that version, everything is listed again
and compared, so that deletions are noticed too. A silent connection counts as dead, because bookmarks arrive every
minute. Watches that end early or fail are retried with increasing delays.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from typing import Generic, NoReturn

import msgspec

from tfjob.api.resources import Resource
from tfjob.api.text.shallow import decoded
from tfjob.kube.access.errors import ApiError, Gone, KubeError, TooManyRequests, Unreachable, api_error
from tfjob.kube.cache.store import ObjectStore, T
from tfjob.kube.client.client import Client, selectors

logger = logging.getLogger(__name__)


class _Event(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _Identified(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()


_events = msgspec.json.Decoder(_Event)
_identities = msgspec.json.Decoder(_Identified)


class Reflector(Generic[T]):
    """Keeps a store up to date; `synced` is set when the store holds the first list.

    `decode` must not keep a `msgspec.Raw` of its input: that would hold the whole response in memory. If it fails, the
    reflector logs the object and the store keeps the previous state of it. `on_listed` is called with the version of
    each list once the store holds it. `restarts` counts the ends of watches by reason.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        decode: Callable[[bytes | msgspec.Raw], T],
        store: ObjectStore[T],
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        on_listed: Callable[[str], None] | None = None,
    ) -> None:
        self.resource = resource
        self.store = store
        self.synced = asyncio.Event()
        self.restarts: dict[str, int] = {}
        self.on_listed = on_listed
        self._client = client
        self._decode = decode
        self._namespace = namespace
        self._params = selectors(label_selector, field_selector)
        self._version = ""
        self._events = 0
        self._heard = self._tried = time.monotonic()

    @property
    def last_event_age(self) -> float:
        """Seconds since the API server last sent anything about these objects, bookmarks included."""
        return time.monotonic() - self._heard

    @property
    def idle(self) -> float:
        """Seconds since this reflector last received or tried anything: it shows whether the reflector is alive."""
        return time.monotonic() - max(self._heard, self._tried)

    async def run(self) -> NoReturn:
        lengths = self._client.durations
        short, pace = lengths.watch_short.total_seconds(), lengths.watch_pace.total_seconds()
        backoff = Backoff(lengths.first_watch_delay.total_seconds(), lengths.longest_watch_delay.total_seconds())
        while True:
            self._tried = began = time.monotonic()
            self._events = 0
            reason, trouble = await self._round()
            self.restarts[reason] = self.restarts.get(reason, 0) + 1
            # A watch that ends early after events is healthy: a busy API server closes watches that are too slow.
            went_on = bool(self._version and self._events)
            if trouble is None and (went_on or time.monotonic() - began >= short):
                await asyncio.sleep(began + pace - time.monotonic())
                continue
            wait = max(backoff.delay(), trouble.retry_after if isinstance(trouble, ApiError) else 0.0)
            logger.log(
                logging.WARNING if trouble else logging.INFO,
                "the watch of %s ended: %s; retrying in %.1f s",
                self.resource.plural,
                trouble or reason,
                wait,
            )
            await asyncio.sleep(wait)

    async def _round(self) -> tuple[str, Exception | None]:
        """List everything if necessary and watch; return why the watch ended, and the error to wait for."""
        try:
            if not self._version:
                await self._list()
            await self._watch()
        except Gone:
            self._version = ""
            return "expired", None
        except Unreachable as error:
            return "unreachable", error
        except TooManyRequests as error:
            return "throttled", error
        except ApiError as error:
            if error.code < 500:
                self._version = ""
            return "refused", error
        except KubeError as error:
            return "unauthorized", error  # fetching the credentials failed; the next attempt may succeed
        except msgspec.DecodeError as error:
            return "garbled", error
        except TimeoutError:
            return "silent", None
        except OSError:
            return "broken", None
        return "closed", None

    async def _list(self) -> None:
        listing = await self._client.collect(
            self.resource, self._namespace, self._params, msgspec.Raw, self._object_or_name
        )
        undecodable = [(one.namespace, one.name) for one in listing.items if isinstance(one, _Metadata)]
        self.store.replace([one for one in listing.items if not isinstance(one, _Metadata)], undecodable)
        self._version = listing.metadata.resource_version
        if self.on_listed is not None:
            self.on_listed(self._version)
        self.synced.set()

    async def _watch(self) -> None:
        durations = self._client.durations
        shortest = max(1, round(durations.watch_length.total_seconds()))
        params = {
            **self._params,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(random.randint(shortest, 2 * shortest)),  # noqa: S311 (no secret)
        }
        begun: list[bytes] = []
        idle = durations.watch_idle.total_seconds()
        async with self._client.opened(self.resource.path(self._namespace), params, idle=idle) as chunks:
            async for chunk in chunks:
                self._heard = time.monotonic()
                if b"\n" not in chunk:
                    begun.append(chunk)
                    continue
                lines = b"".join((*begun, chunk)).split(b"\n")
                begun = [lines.pop()]
                for line in lines:
                    self._apply(line)

    def _apply(self, line: bytes) -> None:
        event = decoded(_events, line)
        self._events += 1
        kind = event.type
        if kind == "BOOKMARK":
            self._version = _identities.decode(event.object).metadata.resource_version
            return
        if kind == "ERROR":
            error = api_error(0, event.object)
            if not isinstance(error, TooManyRequests):
                self._version = ""  # the server may no longer know our version
            raise error
        found = self._object_or_name(event.object)
        metadata, item = (found, None) if isinstance(found, _Metadata) else (found.metadata, found)
        if kind == "DELETED":
            self.store.remove(metadata.namespace, metadata.name, item)
        elif item is not None:
            self.store.put(item)
        self._version = metadata.resource_version

    def _object_or_name(self, raw: msgspec.Raw) -> T | _Metadata:
        """Return an object, or only its name and version if it cannot be decoded."""
        self._heard = time.monotonic()
        try:
            return self._decode(raw)
        except Exception as error:
            metadata = _identities.decode(raw).metadata
            logger.warning(
                "cannot decode %s %s/%s: %s", self.resource.kind, metadata.namespace, metadata.name, str(error)
            )
            return metadata


class Backoff:
    """Delays in seconds that double from `first` to `last`, with jitter, so that clients spread out.

    After `quiet` seconds without a failure they start over; client-go uses the same.
    """

    def __init__(self, first: float, last: float, quiet: float = 120.0) -> None:
        self._first = self._next = first
        self._longest = last
        self._quiet = quiet
        self._asked = time.monotonic()

    def delay(self) -> float:
        now = time.monotonic()
        if now - self._asked > self._quiet:
            self._next = self._first
        delay = min(self._next * random.uniform(1, 2), self._longest)  # noqa: S311 (no secret)
        self._next = min(self._next * 2, self._longest)
        self._asked = now + delay
        return delay
