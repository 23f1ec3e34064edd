"""Credentials for an API server: a token, a user and password, or a client certificate; reloaded when they change."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from pathlib import Path

from tfjob.kube.access.errors import ConfigError
from tfjob.kube.access.tls import Certificate

REREAD_SECONDS = 60.0
"""How often a token file is read. Tokens are replaced long before they expire; client-go uses a minute too."""


class Credential:
    """The credentials that a client sends with each request; those of this class do not change."""

    def __init__(self, header: str = "", certificate: Certificate | None = None) -> None:
        self._header = header
        self._certificate = certificate

    def header(self) -> str | None:
        """Return the Authorization header, empty for none; None if `renew` must fetch it first."""
        return self._header

    def certificate(self) -> Certificate | None:
        return self._certificate

    async def renew(self) -> None:
        """Fetch the credentials again: there were none, they expired, or the API server answered 401."""


class TokenFile(Credential):
    """A token in a file that another program updates, as the kubelet does for a pod."""

    def __init__(
        self, path: Path, certificate: Certificate | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__("", certificate)
        self._path = path
        self._clock = clock
        self._read_at = 0.0

    def header(self) -> str:
        if not self._header or self._clock() - self._read_at > REREAD_SECONDS:
            self._read()
        return self._header

    async def renew(self) -> None:
        self._read()

    def _read(self) -> None:
        try:
            token = self._path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            # While the token is being replaced, the old one is still valid.
            if not self._header:
                why = getattr(error, "strerror", "it is not valid UTF-8")
                raise ConfigError(f"cannot read the token file {self._path}: {why}") from None
            return
        if token:
            self._header = bearer(token)
            self._read_at = self._clock()
        elif not self._header:
            raise ConfigError(f"the token file {self._path} is empty")


class CertificateFiles(Credential):
    """A client certificate in files that may be replaced; read again when the API server rejects it."""

    def __init__(self, chain: Path, key: Path, header: str = "") -> None:
        super().__init__(header)
        self._chain = chain
        self._key = key

    def certificate(self) -> Certificate:
        if self._certificate is None:
            self._certificate = Certificate(contents(self._chain), contents(self._key))
        return self._certificate

    async def renew(self) -> None:
        """Forget the certificate, so that its files are read again."""
        self._certificate = None


def contents(path: Path) -> bytes:
    """Read a file that the kubeconfig names. Raises ConfigError."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None


def bearer(token: str) -> str:
    """Return the header for a token. Raises ConfigError if a header cannot carry the token."""
    if not token.isascii() or not token.isprintable():
        raise ConfigError("the token contains characters that an HTTP header cannot carry")
    return f"Bearer {token}"


def basic(username: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{username}:{password}'.encode()).decode()}"
