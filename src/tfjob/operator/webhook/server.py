"""The server for admission and conversion, with its own TLS certificate, which it publishes and replaces in time.

    webhook = Webhook(client, Address("", 9443), host_names(namespace))
    await webhook.run()                      until cancelled

The webhook never stops the operator. While the API server cannot reach or trust it, jobs are not validated on admission
and older versions are not served, but the operator keeps running.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec
from aiohttp import web

from tfjob.kube.access.errors import KubeError
from tfjob.kube.client.client import Client
from tfjob.operator.options import CONVERSION_PATH, WEBHOOK_PATH, Address
from tfjob.operator.servers import serving
from tfjob.operator.webhook import certificates, reviews
from tfjob.operator.webhook.certificates import Certificate

logger = logging.getLogger("tfjob.operator.webhook.server")

BODY_LIMIT = 8 * 1024 * 1024
"""An AdmissionReview holds an object twice, and etcd stores up to 1.5 MiB; a ConversionReview holds one object."""
SMALL_BODY = 64 * 1024
"""Up to this size, converting a review takes less time than passing it to a thread."""

Review = dict[str, Any]
Answer = Callable[[Review], Review]
_reviews = msgspec.json.Decoder(Review)


def webhook_app() -> web.Application:
    app = web.Application(client_max_size=BODY_LIMIT)
    app.router.add_post(WEBHOOK_PATH, partial(_answer, reviews.admit, 0))
    app.router.add_post(CONVERSION_PATH, partial(_answer, reviews.convert, SMALL_BODY))
    return app


async def _answer(answer: Answer, small: int, request: web.Request) -> web.Response:
    try:
        review = _reviews.decode(await request.read())
    except (msgspec.DecodeError, RecursionError) as error:
        return web.Response(status=400, text=f"invalid review: {error}\n")
    # A large review takes long, and the lease must be renewed meanwhile.
    in_thread = (request.content_length or BODY_LIMIT) > small
    found = await asyncio.to_thread(answer, review) if in_thread else answer(review)
    return web.Response(body=msgspec.json.encode(found), content_type="application/json")


class Webhook:
    """The server of one process, and its certificate."""

    def __init__(
        self,
        client: Client,
        address: Address,
        names: Sequence[str],
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.client = client
        self.address = address
        self.names = names
        self.clock = clock
        self.durations = client.durations
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._asked = False
        self._next: Certificate | None = None
        self._complaints: list[str] = []

    def fault(self) -> str:
        """Return why this process is not ready; it is ready once it has tried to publish its certificate."""
        return "" if self._asked else "the webhook's certificate is not published yet"

    async def run(self) -> None:
        """Serve until cancelled. Raises ConfigError if the port is taken."""
        certificate = certificates.make(self.names, self.clock())
        certificates.load(self._context, certificate)
        async with serving(webhook_app(), self.address, self._context):
            logger.info("webhook serving on port %d", self.address.port)
            await self._keep_trusted(certificate)

    async def publish(self, *own: Certificate) -> bool:
        """Make the API server trust these certificates; return whether it does now."""
        bundle, complaints = [one.certificate for one in own], []
        for place in certificates.PLACES:
            try:
                await certificates.publish(self.client, place, bundle, self.clock())
            except KubeError as error:
                complaints.append(f"{place.without}: cannot publish the webhook's certificate: {error.message}")
        self._asked = True
        for complaint in complaints:
            # Log each reason once: publishing is retried for as long as the process runs.
            if complaint not in self._complaints:
                logger.warning("%s", complaint)
        self._complaints = complaints
        return not complaints

    async def _keep_trusted(self, certificate: Certificate) -> None:
        while True:
            published = await self.publish(certificate)
            pause = self.durations.trust_check if published else self.durations.trust_retry
            await asyncio.sleep(pause.total_seconds())
            if certificate.wears_out(self.clock()):
                certificate = await self._replaced(certificate)

    async def _replaced(self, old: Certificate) -> Certificate:
        """Return the next certificate. The API server trusts it before it is used, so that no call fails."""
        # All attempts share one certificate: more would push those of other replicas out of the bundle.
        new = self._next = self._next or certificates.make(self.names, self.clock())
        if await self.publish(old, new):
            await asyncio.sleep(self.durations.trust_spread.total_seconds())
        elif self.clock() < old.expires:
            return old
        self._next = None
        certificates.load(self._context, new)
        logger.info("webhook certificate replaced; the new one is valid until %s", new.expires.isoformat())
        return new
