"""One leader at a time: a Lease object that the leader renews, and a fence that closes before another may lead.

Clocks of different machines are never compared: a lease counts as abandoned if it did not change for its duration while
we watched. A leader that cannot renew for `renew_deadline` seconds stops leading; others wait longer than that.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, NoReturn

import msgspec

from tfjob.api.resources import LEASES
from tfjob.kube.access.errors import AlreadyExists, Conflict, KubeError, NotFound
from tfjob.kube.client.client import Client

logger = logging.getLogger(__name__)

_FREE = {"holderIdentity": "", "leaseDurationSeconds": 1}


def uptime() -> float:
    """Return seconds that also count while the machine sleeps: a closed laptop must not extend a lease."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class LeaseLost(Exception):
    """This process may no longer write; it exits, because stopping only parts of it is not safe."""


class Lease:
    """The right to lead, under a name that all candidates know; `identity` is unique to each process."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        identity: str,
        clock: Callable[[], float] = uptime,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.where = f"{namespace}/{name}"
        self.identity = identity
        self._path = LEASES.object_path(namespace, name)
        self._metadata = {"namespace": namespace, "name": name}
        durations = client.durations
        self.duration = durations.lease.total_seconds()
        self.renew_deadline = durations.lease_renewal.total_seconds()
        self.retry = durations.lease_retry.total_seconds()
        self._attempt = durations.lease_attempt.total_seconds()
        if not self.retry < self.renew_deadline < self.duration:
            raise ValueError("a lease needs lease_retry < lease_renewal < lease")
        self._client = client
        self._clock = clock
        self._sleep = sleep
        self._seen: dict[str, Any] = {}
        self._changed_at = 0.0
        self._renewed_at: float | None = None

    @property
    def held(self) -> bool:
        return self._renewed_at is not None and self._clock() - self._renewed_at < self.renew_deadline

    def check(self) -> None:
        """Raise LeaseLost unless this process leads; called before each write."""
        if self._renewed_at is None:
            raise LeaseLost(f"this process does not hold the lease {self.where}")
        age = self._clock() - self._renewed_at
        if age >= self.renew_deadline:
            raise LeaseLost(f"the lease {self.where} was not renewed for {age:.1f} s")

    async def acquire(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self.renew_deadline):
                    if await self._take():
                        return
                wait = self._until_free()
            except (KubeError, TimeoutError) as error:
                wait = self.retry
                logger.warning("cannot acquire the lease %s: %s", self.where, error or "no answer in time")
            await self._sleep(wait)

    async def hold(self) -> NoReturn:
        while True:
            await self._sleep(max(0.0, min(self.retry, self._left())))
            self.check()
            try:
                async with asyncio.timeout(min(self._left(), self._attempt)):
                    renewed = await self._take()
            except (KubeError, TimeoutError) as error:
                logger.warning("cannot renew the lease %s: %s", self.where, error or "no answer in time")
                continue
            if not renewed and self._holder not in ("", self.identity):
                self._renewed_at = None
                raise LeaseLost(f"the lease {self.where} is held by {self._holder}")

    async def release(self) -> None:
        """Let the next process lead at once; this one writes nothing from now on."""
        held, self._renewed_at = self.held, None
        if not held:
            return
        try:
            try:
                await self._write(_FREE)
            except Conflict:
                # A renewal was interrupted after it was sent.
                await self._look()
                if self._holder == self.identity:
                    await self._write(_FREE)
        except KubeError as error:
            logger.warning("cannot release the lease %s: %s", self.where, error)
        else:
            logger.info("released the lease %s", self.where)

    async def _take(self) -> bool:
        began = self._clock()  # a renewal counts from before it was sent, which is the safe side
        if not self._seen or not self._is_free():
            await self._look()
        taken = self._is_free() and await self._claim()
        if taken:
            self._renewed_at = began
        return taken

    async def _look(self) -> None:
        try:
            self._saw(await self._client.request("GET", self._path))
        except NotFound:
            self._seen = {}

    async def _claim(self) -> bool:
        changes: dict[str, Any] = {"holderIdentity": self.identity, "leaseDurationSeconds": round(self.duration)}
        if self._holder != self.identity:
            changes["acquireTime"] = _micro_time()
            changes["leaseTransitions"] = self._spec.get("leaseTransitions", 0) + 1 if self._seen else 0
        try:
            await self._write(changes)
        except (AlreadyExists, Conflict, NotFound):
            # Another process wrote the lease: read its holder.
            await self._look()
            return False
        return True

    async def _write(self, changes: dict[str, Any]) -> None:
        lease = self._seen or LEASES.manifest(self._metadata)
        body = {**lease, "spec": {**self._spec, **changes, "renewTime": _micro_time()}}
        method, path = ("PUT", self._path) if self._seen else ("POST", LEASES.path(self._metadata["namespace"]))
        self._saw(await self._client.request(method, path, body=body, fenced=False))

    def _saw(self, encoded: bytes) -> None:
        lease = msgspec.json.decode(encoded)
        if lease.get("spec") != self._seen.get("spec"):
            self._changed_at = self._clock()
        self._seen = lease

    @property
    def _spec(self) -> dict[str, Any]:
        return self._seen.get("spec") or {}

    @property
    def _holder(self) -> str:
        return self._spec.get("holderIdentity") or ""

    def _is_free(self) -> bool:
        return self._holder in ("", self.identity) or self._until_expiry() <= 0

    def _until_expiry(self) -> float:
        duration: float = self._spec.get("leaseDurationSeconds") or self.duration
        return self._changed_at + duration - self._clock()

    def _until_free(self) -> float:
        """Return how long a candidate waits before it looks again: it must notice a released lease soon."""
        return max(0.01, min(self.retry, self._until_expiry())) if self._holder else self.retry

    def _left(self) -> float:
        return self._renewed_at + self.renew_deadline - self._clock() if self._renewed_at is not None else 0.0


def _micro_time() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
