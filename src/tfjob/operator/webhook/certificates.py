"""The webhook's certificates: created in memory, trusted through the webhook configuration, never written to a disk.

Each operator process signs its own certificate and adds it to the bundle that the API server trusts; the key never
leaves the process (docs/decisions/0008). Several replicas write the same bundle, so each write checks that the object
has not changed since it was read.

    await publish(client, ADMISSION, [certificate], now)
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import ssl
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tfjob.api.crd.tfjob import NAME as CRD_NAME
from tfjob.api.resources import CRDS, VALIDATING_WEBHOOKS, Resource
from tfjob.kube.access.errors import Conflict, NotFound
from tfjob.kube.access.tls import as_file
from tfjob.kube.client.client import Client
from tfjob.operator.options import NAME

LIFETIME = timedelta(days=30)
RENEW_BEFORE = LIFETIME / 3
"""How long before its end a certificate is replaced."""
SKEW = timedelta(hours=1)
"""How far the clocks of the operator and the API server may differ."""
MOST_TRUSTED = 8
"""How many certificates the bundle holds: those of all replicas, and of some that have just ended."""
_SUBJECT = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tf-job-operator webhook")])
TRIES = 5


@dataclass(frozen=True)
class Certificate:
    """A self-signed certificate with its key, both as PEM."""

    certificate: bytes
    key: bytes
    expires: datetime

    def wears_out(self, now: datetime) -> bool:
        return now >= self.expires - RENEW_BEFORE


def make(names: Sequence[str], now: datetime) -> Certificate:
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(_SUBJECT)
        .issuer_name(_SUBJECT)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.SubjectAlternativeName([_host(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, SHA256())
    )
    return Certificate(
        certificate.public_bytes(Encoding.PEM),
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        now + LIFETIME,
    )


def trusted(bundle: bytes, own: Iterable[bytes], now: datetime) -> bytes:
    """Return the bundle with our certificates and the newest others; without expired ones."""
    mine = [x509.load_pem_x509_certificate(pem) for pem in own]
    try:
        known = [one for one in x509.load_pem_x509_certificates(bundle) if one.subject == _SUBJECT]
    except ValueError:
        known = []
    others = [one for one in known if one not in mine and one.not_valid_after_utc > now]
    newest = sorted(others, key=_age)[-max(0, MOST_TRUSTED - len(mine)) :]
    # The order does not depend on the writer, or two replicas would rewrite each other's bundle forever.
    return b"".join(one.public_bytes(Encoding.PEM) for one in sorted([*newest, *mine], key=_age))


def load(context: ssl.SSLContext, certificate: Certificate) -> None:
    """Use a certificate for new connections; open connections keep the old one."""
    with as_file(certificate.certificate + certificate.key) as path:
        context.load_cert_chain(path)


def _age(certificate: x509.Certificate) -> tuple[datetime, int]:
    return certificate.not_valid_before_utc, certificate.serial_number


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


@dataclass(frozen=True)
class Place:
    """An object with the settings of a webhook at `path`; `without` says what does not work without them."""

    resource: Resource
    name: str
    path: tuple[str | int, ...]
    without: str


ADMISSION = Place(VALIDATING_WEBHOOKS, NAME, ("webhooks", 0, "clientConfig"), "jobs are not validated on admission")
CONVERSION = Place(CRDS, CRD_NAME, ("spec", "conversion", "webhook", "clientConfig"), "jobs are served in v1 only")
PLACES = (ADMISSION, CONVERSION)


async def publish(client: Client, place: Place, own: Sequence[bytes], now: datetime) -> None:
    """Add certificates (PEM) to the bundle at a place, if it is in use. Raises KubeError."""
    for attempt in range(1, TRIES + 1):
        try:
            found = await client.get(place.resource, "", place.name)
        except NotFound:
            return  # the installation has no admission webhook, or serves only tensorflow.org
        settings: Any = found
        try:
            for part in place.path:
                settings = settings[part]
        except LookupError:
            return  # the CRD does not use conversion
        try:
            before = base64.b64decode(settings.get("caBundle") or "")
        except binascii.Error:
            before = b""
        bundle = trusted(before, own, now)
        if bundle == before:
            return
        version, encoded = found["metadata"]["resourceVersion"], base64.b64encode(bundle).decode()
        patch = [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
            {"op": "add", "path": f"/{'/'.join(map(str, place.path))}/caBundle", "value": encoded},
        ]
        path, params = place.resource.object_path("", place.name), {"fieldManager": "tfjob-webhook"}
        try:
            # A standby publishes too, so the lease's fence does not apply.
            await client.request("PATCH", path, params, patch, "application/json-patch+json", fenced=False)
        except Conflict:
            # Another replica was faster; its certificate must stay in the bundle.
            if attempt == TRIES:
                raise
        else:
            return
