"""TLS to an API server: the trusted CA and the client certificate."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tfjob.kube.access.errors import ConfigError


@dataclass(frozen=True)
class Certificate:
    """A client certificate with its key, both as PEM."""

    chain: bytes
    key: bytes


@dataclass(frozen=True)
class Trust:
    """How to verify an API server: with a CA (PEM or file, else the machine's) and a name (else the URL's)."""

    authority: bytes = b""
    authority_file: str = ""
    server_name: str = ""
    insecure: bool = False


def context(trust: Trust, certificate: Certificate | None = None) -> ssl.SSLContext:
    """Return the TLS context for connections. Raises ConfigError for an unusable CA or certificate."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    if trust.insecure:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    else:
        _trust(made, trust)
    if certificate is not None:
        _show(made, certificate)
    return made


def _trust(made: ssl.SSLContext, trust: Trust) -> None:
    authority, source = trust.authority, "certificate-authority-data"
    if not authority and trust.authority_file:
        source = trust.authority_file
        try:
            authority = Path(source).read_bytes()
        except OSError as error:
            raise ConfigError(f"cannot read the cluster's CA {source}: {error.strerror}") from None
    if not authority:
        made.load_default_certs()
        return
    try:
        made.load_verify_locations(cadata=authority.decode("ascii", "ignore"))
    except (ssl.SSLError, ValueError):
        raise ConfigError(f"the cluster's CA is not a PEM certificate: {source}") from None


def _show(made: ssl.SSLContext, certificate: Certificate) -> None:
    with as_file(certificate.chain + b"\n" + certificate.key) as path:
        try:
            made.load_cert_chain(path, password=_no_passphrase)
        except (ssl.SSLError, ValueError):
            raise ConfigError("the client certificate and its key do not match, or are not in PEM format") from None


def _no_passphrase() -> str:
    raise ConfigError(
        "the client key is protected by a passphrase", "Use a key without a passphrase, or an exec plugin."
    )


@contextmanager
def as_file(content: bytes) -> Iterator[str]:
    """Yield a path to the content, because `ssl` reads only files; in memory if possible, so that no key is on disk."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("tfjob")
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        yield file.name
