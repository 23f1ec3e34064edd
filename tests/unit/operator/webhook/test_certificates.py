"""Certificates in memory: trusted through a bundle, replaced without a restart."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from tfjob.operator.webhook import certificates
from tfjob.operator.webhook.certificates import LIFETIME, MOST_TRUSTED, RENEW_BEFORE, make, trusted

NOW = datetime.now(UTC).replace(microsecond=0)
NAMES = ["tf-job-operator.kubeflow.svc", "localhost"]
DAY = timedelta(days=1)


def serials(bundle: bytes) -> list[int]:
    return [one.serial_number for one in x509.load_pem_x509_certificates(bundle)]


def serial(certificate: certificates.Certificate) -> int:
    return x509.load_pem_x509_certificate(certificate.certificate).serial_number


def test_the_first_certificate_is_the_bundle() -> None:
    own = make(NAMES, NOW)
    assert trusted(b"", [own.certificate], NOW) == own.certificate


def test_the_certificates_of_two_replicas_stand_together_and_neither_rewrites_the_other() -> None:
    one, two = make(NAMES, NOW), make(NAMES, NOW + DAY)
    bundle = trusted(trusted(b"", [two.certificate], NOW), [one.certificate], NOW)
    assert serials(bundle) == [serial(one), serial(two)]
    for own in (one, two):
        assert trusted(bundle, [own.certificate], NOW) == bundle


def test_what_has_expired_goes() -> None:
    old, own = make(NAMES, NOW - LIFETIME - DAY), make(NAMES, NOW)
    assert trusted(old.certificate, [own.certificate], NOW) == own.certificate


def test_the_bundle_stays_small_and_keeps_the_newest() -> None:
    bundle = b""
    made = [make(NAMES, NOW - DAY * (20 - age)) for age in range(20)]
    for one in made:
        bundle = trusted(bundle, [one.certificate], NOW)
    assert serials(bundle) == [serial(one) for one in made[-MOST_TRUSTED:]]
    oldest = made[0]
    assert serial(oldest) in serials(trusted(bundle, [oldest.certificate], NOW)), "our own is always in it"


@pytest.mark.parametrize("bundle", [b"", b"Cg==", b"-----BEGIN CERTIFICATE-----\nrubbish\n-----END CERTIFICATE-----\n"])
def test_a_bundle_that_is_none_is_replaced(bundle: bytes) -> None:
    own = make(NAMES, NOW)
    assert trusted(bundle, [own.certificate], NOW) == own.certificate


@pytest.mark.parametrize(
    ("after", "due"), [(timedelta(), False), (LIFETIME - RENEW_BEFORE, True), (LIFETIME + DAY, True)]
)
def test_a_certificate_is_replaced_long_before_its_end(after: timedelta, due: bool) -> None:
    assert make(NAMES, NOW).wears_out(NOW + after) is due


def test_a_running_server_shows_the_new_certificate_without_a_restart() -> None:
    async def both() -> tuple[bytes | None, bytes | None]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        first, second = make(NAMES, NOW), make(NAMES, NOW)
        certificates.load(context, first)
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        async with server:
            before = await shown(port, first.certificate)
            certificates.load(context, second)
            return before, await shown(port, second.certificate)

    before, after = asyncio.run(both())
    assert before is not None
    assert after is not None
    assert before != after


async def shown(port: int, trust: bytes) -> bytes | None:
    """The certificate that a client sees which trusts only `trust` and knows the server by name."""
    context = ssl.create_default_context(cadata=trust.decode())
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=NAMES[0])
    seen: bytes | None = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return seen


def test_no_file_and_no_open_descriptor_is_left() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    certificates.load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), make(NAMES, NOW))
    assert len(list(Path("/proc/self/fd").iterdir())) == before
