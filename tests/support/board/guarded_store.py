"""A door in front of an object store of this machine: it lets in who signs, or shows a token, as the real store asks.

The servers themselves take requests of anybody.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qsl, quote, urlsplit

SIGNATURE = re.compile(r"AWS4-HMAC-SHA256 Credential=([^/]+)/([^,]+), ?SignedHeaders=([^,]+), ?Signature=(\w+)")
Judge = Callable[[str, str, Mapping[str, str]], bool]
"""Whether a request may pass: its method, its path with the query, its headers by their names in small letters."""


@dataclass(frozen=True)
class Keys:
    """What a request to S3 is signed with; a session token only if somebody gave the keys for a while."""

    id: str
    secret: str
    session: str = ""


@dataclass
class Door:
    """Where it is, and how many requests it let in and refused."""

    url: str = ""
    passed: int = 0
    refused: int = 0


@contextmanager
def guarded(store: str, judge: Judge) -> Iterator[Door]:
    """A store that can be read through the door alone."""
    door = Door()
    backend = urlsplit(store).netloc

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            if not judge(self.command, self.path, headers):
                door.refused += 1
                self._answer(403, [], b"who are you?")
                return
            door.passed += 1
            connection = HTTPConnection(backend, timeout=60)
            try:
                wanted = {"Range": headers["range"]} if "range" in headers else {}
                connection.request(self.command, self.path, headers=wanted)
                answer = connection.getresponse()
                self._answer(answer.status, answer.getheaders(), answer.read())
            finally:
                connection.close()

        do_HEAD = do_GET

        def _answer(self, code: int, headers: list[tuple[str, str]], body: bytes) -> None:
            self.send_response_only(code)
            lengths = [value for name, value in headers if name.lower() == "content-length"]
            for name, value in headers:
                if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            # Of what a HEAD asks about there is a length and no body.
            self.send_header("Content-Length", lengths[0] if lengths and not body else str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with listening(Handler) as address:
        door.url = f"http://{address}"
        yield door


def signed_with(keys: Keys) -> Judge:
    """A judge of S3: the request has to be signed (version 4) with these keys."""

    def judge(method: str, path: str, headers: Mapping[str, str]) -> bool:
        found = SIGNATURE.match(headers.get("authorization", ""))
        if found is None:
            return False
        who, scope, names, signature = found.groups()
        url = urlsplit(path)
        query = sorted(parse_qsl(url.query, keep_blank_values=True))
        request = [
            method,
            url.path,
            "&".join(f"{quote(name, safe='-_.~')}={quote(value, safe='-_.~')}" for name, value in query),
            *(f"{name}:{headers.get(name, '').strip()}" for name in names.split(";")),
            "",
            names,
            headers.get("x-amz-content-sha256", ""),
        ]
        digest = hashlib.sha256("\n".join(request).encode()).hexdigest()
        text = "\n".join(["AWS4-HMAC-SHA256", headers.get("x-amz-date", ""), scope, digest])
        key = f"AWS4{keys.secret}".encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        right = hmac.digest(key, text.encode(), "sha256").hex()
        session = headers.get("x-amz-security-token", "")
        return who == keys.id and session == keys.session and hmac.compare_digest(right, signature)

    return judge


def bearing(is_good: Callable[[str], bool]) -> Judge:
    """A judge of Google Cloud Storage: the request has to bear a token that is good."""

    def judge(_: str, __: str, headers: Mapping[str, str]) -> bool:
        kind, _, token = headers.get("authorization", "").partition(" ")
        return kind == "Bearer" and is_good(token)

    return judge


@contextmanager
def listening(handler: type[BaseHTTPRequestHandler], context: ssl.SSLContext | None = None) -> Iterator[str]:
    """A server of this machine, with a context over TLS; its host and port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
