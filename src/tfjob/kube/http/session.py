"""Our identity on every request to an API server: renewed credentials, headers, and the connections."""

from __future__ import annotations

import ipaddress
import os
import socket
import ssl
from collections.abc import Mapping, Sequence
from urllib.parse import urlencode, urlsplit

from tfjob import __version__
from tfjob.durations import Durations
from tfjob.kube.access import tls
from tfjob.kube.access.config import Access
from tfjob.kube.access.errors import Unreachable
from tfjob.kube.http.pool import Pool

Params = Mapping[str, str] | Sequence[tuple[str, str]]
Shown = tuple[str, tls.Certificate | None]
"""The credentials that a request carries."""


class Session:
    """One identity at one API server; `head` holds the headers of every request, `pool` the connections."""

    def __init__(self, access: Access, connections: int, durations: Durations) -> None:
        self.access = access
        self._durations = durations
        self.pool: Pool
        self.context: ssl.SSLContext | None = None
        self._connections = connections
        self._credential = access.credential
        self._authorization = ""
        self._certificate: tls.Certificate | None = None
        url = urlsplit(access.server)
        self._prefix = url.path
        self._common = (
            f"Host: {url.netloc.rpartition('@')[2]}\r\nUser-Agent: tfjob/{__version__}\r\nAccept: application/json\r\n"
            + "".join(f"{name}: {value}\r\n" for name, value in access.impersonation)
        )
        self.head = self._common
        self.compression = "" if _is_near(access) else "Accept-Encoding: gzip\r\n"

    async def open(self) -> None:
        if self._credential.header() is None:
            await self._credential.renew()
        self._open()

    async def close(self) -> None:
        await self.pool.close()

    @property
    def is_stale(self) -> bool:
        """Whether the credential has changed since the request headers were made."""
        return self._credential.header() is not self._authorization

    async def authorize(self) -> None:
        authorization = self._credential.header()
        if authorization is None:
            await self.renewed(self.shown)
        elif authorization is not self._authorization:
            self._show(authorization)

    @property
    def shown(self) -> Shown:
        return self._authorization, self._certificate

    async def renewed(self, shown: Shown) -> bool:
        """Return whether there are other credentials than those `shown`; fetch them unless another caller did."""
        if self.shown != shown:
            return True
        await self._credential.renew()
        if self._credential.certificate() != self._certificate:
            # Open connections keep the old certificate; responses in progress are read to their end.
            left = self.pool
            self._open()
            await left.close()
        self._show(self._credential.header() or "")
        return self.shown != shown

    def _show(self, authorization: str) -> None:
        self._authorization = authorization
        self.head = f"{self._common}Authorization: {authorization}\r\n" if authorization else self._common

    def _open(self) -> None:
        access = self.access
        self._certificate = self._credential.certificate()
        self.context = tls.context(access.trust, self._certificate) if access.server.startswith("https:") else None
        self._show(self._credential.header() or "")
        self.pool = Pool(access, self.context, self._connections, self._durations)

    def target(self, path: str, params: Params) -> str:
        """Return the request target. Raises ValueError for a path that would change the request."""
        target = f"{self._prefix}{path}?{urlencode(params)}" if params else f"{self._prefix}{path}"
        if not target.isascii() or not target.isprintable() or " " in target:
            raise ValueError(f"a path has to be quoted: {target!r}")
        return target

    def unreachable(self, error: Exception) -> Unreachable:
        context = f" of context {self.access.context}" if self.access.context else ""
        return Unreachable(f"cannot reach the API server {self.access.server}{context}: {_reason(error)}")


def _reason(error: Exception) -> str:
    match error:
        case ssl.SSLCertVerificationError():
            return f"its certificate is not trusted ({error.verify_message})"
        case socket.gaierror():
            return "its host name cannot be resolved"
        case TimeoutError():
            return "no answer in time"
        case OSError() if error.errno and not isinstance(error, ssl.SSLError):
            return os.strerror(error.errno).lower()
    return str(error) or type(error).__name__


def _is_near(access: Access) -> bool:
    """Return whether compressing a list costs more than sending it: inside the cluster, and on this machine."""
    host = urlsplit(access.server).hostname or ""
    try:
        return not access.context or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
