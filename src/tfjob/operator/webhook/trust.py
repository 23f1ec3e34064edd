"""The places where an API server looks up which certificates of ours it may trust, and how we add one there.

    await publish(client, ADMISSION, [certificate], now)

Several replicas write the same bundles, so each change is made over what was read.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tfjob.api.crd.tfjob import NAME as CRD_NAME
from tfjob.kube.access.errors import Conflict, NotFound
from tfjob.kube.client.client import Client
from tfjob.kube.client.resources import CRDS, VALIDATING_WEBHOOKS, Resource
from tfjob.operator.names import NAME, WEBHOOK
from tfjob.operator.webhook.certificates import trusted

Object = dict[str, Any]

TRIES = 5


@dataclass(frozen=True)
class Place:
    """An object with the settings of a webhook: where they stand in it, and what does not work without them.

    `settings` finds the `clientConfig`, None where the webhook is not used; `patch` writes one that holds our bundle.
    """

    resource: Resource
    name: str
    settings: Callable[[Object], Object | None]
    patch: Callable[[Object], Object]
    content_type: str
    without: str
    may_be_missing: bool


def _admission(found: Object) -> Object | None:
    entry = next((one for one in found.get("webhooks", []) if one.get("name") == WEBHOOK), None)
    if entry is None:
        raise NotFound(404, "NotFound", f"the webhook configuration {NAME} has no entry {WEBHOOK}")
    return dict(entry.get("clientConfig") or {})


def _conversion(found: Object) -> Object | None:
    conversion = found.get("spec", {}).get("conversion") or {}
    return (conversion.get("webhook") or {}).get("clientConfig") if conversion.get("strategy") == "Webhook" else None


ADMISSION = Place(
    VALIDATING_WEBHOOKS,
    NAME,
    settings=_admission,
    patch=lambda config: {"webhooks": [{"name": WEBHOOK, "clientConfig": config}]},
    content_type="application/strategic-merge-patch+json",
    without="jobs are not judged on admission",
    may_be_missing=True,  # where that is not wanted
)
CONVERSION = Place(
    CRDS,
    CRD_NAME,
    settings=_conversion,
    patch=lambda config: {"spec": {"conversion": {"webhook": {"clientConfig": config}}}},
    content_type="application/merge-patch+json",
    without="jobs are served in v1 alone",
    may_be_missing=True,  # where there is tensorflow.org alone
)
PLACES = (ADMISSION, CONVERSION)


async def publish(client: Client, place: Place, own: Sequence[bytes], now: datetime) -> None:
    """Sees to it that certificates (PEM) are trusted at a place, where it is in use; raises KubeError."""
    for attempt in range(1, TRIES + 1):
        try:
            found = await client.get(place.resource, "", place.name)
        except NotFound:
            if place.may_be_missing:
                return
            raise
        settings = place.settings(found)
        if settings is None:
            return
        before = _bundle(settings)
        bundle = trusted(before, own, now)
        if bundle == before:
            return
        body = {
            "metadata": {"resourceVersion": found["metadata"]["resourceVersion"]},
            **place.patch({"caBundle": base64.b64encode(bundle).decode()}),
        }
        try:
            # A standby publishes too, so the lease's fence does not apply.
            await client.request(
                "PATCH",
                place.resource.object_path("", place.name),
                {"fieldManager": "tfjob-webhook"},
                body,
                place.content_type,
                fenced=False,
            )
        except Conflict:
            # Another replica was faster; its certificate must stay in.
            if attempt == TRIES:
                raise
        else:
            return


def _bundle(settings: Object) -> bytes:
    try:
        return base64.b64decode(settings.get("caBundle") or "")
    except binascii.Error:
        return b""
