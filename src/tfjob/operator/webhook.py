"""The admission webhook as a server: TLS with a certificate of its own, which it publishes and replaces in time.

    webhook = Webhook(client, Address("", 9443), host_names(namespace))
    await webhook.run()                      until cancelled

Nothing here may end the operator: while the API server cannot reach or trust the webhook, it goes on without it.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import ssl
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from aiohttp import web

from tfjob.kube.client import Client
from tfjob.kube.errors import Conflict, KubeError, NotFound
from tfjob.kube.resources import VALIDATING_WEBHOOKS
from tfjob.operator import certificates
from tfjob.operator.admission import answer
from tfjob.operator.certificates import Certificate
from tfjob.operator.listening import serving
from tfjob.operator.names import NAME, WEBHOOK, WEBHOOK_PATH
from tfjob.operator.options import Address

logger = logging.getLogger("tfjob.operator.webhook")

BODY_LIMIT = 8 * 1024 * 1024
"""A review holds the object twice, and etcd takes objects of 1.5 MiB."""
LOOK_AGAIN = 30.0
"""Seconds between two looks at whether our certificate is still trusted."""
TRY_AGAIN = 5.0
SPREADING = 5.0
"""Seconds until every API server has heard of a new certificate, and it may be used."""
TRIES = 5


def webhook_app() -> web.Application:
    """Answers AdmissionReviews."""
    app = web.Application(client_max_size=BODY_LIMIT)
    app.router.add_post(WEBHOOK_PATH, _validate)
    return app


async def _validate(request: web.Request) -> web.Response:
    try:
        review = msgspec.json.decode(await request.read(), type=dict[str, Any])
    except msgspec.DecodeError as error:
        return web.Response(status=400, text=f"no AdmissionReview: {error}\n")
    # In a thread: an object may be large and odd, and the lease is renewed meanwhile.
    verdict = await asyncio.to_thread(answer, review)
    return web.Response(body=msgspec.json.encode(verdict), content_type="application/json")


class Webhook:
    """One process's server and its certificate."""

    def __init__(
        self,
        client: Client,
        address: Address,
        names: Sequence[str],
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        look_again: float = LOOK_AGAIN,
        spreading: float = SPREADING,
    ) -> None:
        self.client = client
        self.address = address
        self.names = names
        self.clock = clock
        self.look_again = look_again
        self.spreading = spreading
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._asked = False
        self._complaint = ""

    def fault(self) -> str:
        """Why this process should not be asked yet; it is ready as soon as it tried to publish its certificate."""
        return "" if self._asked else "the webhook's certificate is not published yet"

    async def run(self) -> None:
        """Serves until cancelled. Raises ConfigError when the port is taken."""
        certificate = self._new()
        certificates.load(self._context, certificate)
        async with serving(webhook_app(), self.address, self._context):
            logger.info("webhook serving on port %d", self.address.port)
            await self._keep_trusted(certificate)

    async def publish(self, *own: Certificate) -> bool:
        """Sees to it that the API server trusts these certificates; whether it does now."""
        try:
            await self._publish([one.certificate for one in own])
        except KubeError as error:
            self._complain(error)
            return False
        finally:
            self._asked = True
        self._complaint = ""
        return True

    async def _keep_trusted(self, certificate: Certificate) -> None:
        while True:
            published = await self.publish(certificate)
            await asyncio.sleep(self.look_again if published else min(TRY_AGAIN, self.look_again))
            if certificate.wears_out(self.clock()):
                certificate = await self._replaced(certificate)

    async def _replaced(self, old: Certificate) -> Certificate:
        """The next certificate: trusted first and used then, so that no call meets one that is not known."""
        new = self._new()
        if await self.publish(old, new):
            await asyncio.sleep(self.spreading)
        elif self.clock() < old.expires:
            return old
        certificates.load(self._context, new)
        logger.info("webhook certificate replaced; the new one is valid until %s", new.expires.isoformat())
        return new

    async def _publish(self, own: list[bytes]) -> None:
        for attempt in range(1, TRIES + 1):
            found = await self.client.get(VALIDATING_WEBHOOKS, "", NAME)
            entry = next((one for one in found.get("webhooks", []) if one.get("name") == WEBHOOK), None)
            if entry is None:
                raise NotFound(404, "NotFound", f"the webhook configuration {NAME} has no entry {WEBHOOK}")
            before = _bundle(entry)
            bundle = certificates.trusted(before, own, self.clock())
            if bundle == before:
                return
            try:
                await self._patch(bundle, found["metadata"]["resourceVersion"])
            except Conflict:
                # Another replica was faster; its certificate must stay in.
                if attempt == TRIES:
                    raise
            else:
                return

    async def _patch(self, bundle: bytes, resource_version: str) -> None:
        body = {
            "metadata": {"resourceVersion": resource_version},
            "webhooks": [{"name": WEBHOOK, "clientConfig": {"caBundle": base64.b64encode(bundle).decode()}}],
        }
        # A standby publishes too, so the lease's fence does not apply.
        await self.client.request(
            "PATCH",
            VALIDATING_WEBHOOKS.object_path("", NAME),
            {"fieldManager": "tfjob-webhook"},
            body,
            "application/strategic-merge-patch+json",
            fenced=False,
        )

    def _new(self) -> Certificate:
        return certificates.make(self.names, self.clock())

    def _complain(self, error: KubeError) -> None:
        """Once for each reason: it is tried again for as long as the process lives."""
        if error.message != self._complaint:
            logger.warning("jobs are not judged on admission: the certificate is not published: %s", error.message)
        self._complaint = error.message


def _bundle(entry: dict[str, Any]) -> bytes:
    try:
        return base64.b64decode(entry.get("clientConfig", {}).get("caBundle") or "")
    except binascii.Error:
        return b""
