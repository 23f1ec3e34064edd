"""The REST server: TensorFlow Serving's routes below `/v1/`, the Open Inference Protocol, probes, and metrics.

A request goes through `RestServer.handle`: find the route (`answer`), read the body (`json_api`), call the `Predictor`,
write the reply, which may be compressed. Every error is `{"error": "..."}` with the HTTP status of its code.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
import os
import re
import ssl
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, TypeVar

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_exceptions import HttpProcessingError

from tfjob.serve import inference_v2, json_api
from tfjob.serve.config import InvalidConfig
from tfjob.serve.config_files import Tls
from tfjob.serve.errors import Code, Status, invalid
from tfjob.serve.metrics import CONTENT_TYPE, Metrics
from tfjob.serve.predict import ModelSpec, Prediction, Predictor

log = logging.getLogger(__name__)
quiet = logging.getLogger(f"{__name__}.protocol")
"""The log of aiohttp, which would contain a traceback for each malformed request."""
quiet.setLevel(logging.CRITICAL + 1)

T = TypeVar("T")
MODEL = re.compile(
    r"/v1/models(?:/(?P<name>[^/:]+))?(?:/versions/(?P<version>[0-9]+)|/labels/(?P<label>[^/:]+))?"
    r"(?:(?P<metadata>/metadata)|:(?P<method>classify|regress|predict))?",
    re.IGNORECASE,
)
LARGEST_BODY = 64 << 20
"""Bytes of a request after decompression: parsing 60 MB of JSON delayed other requests by 0.5 s (two shared cores)."""
LARGEST_INLINE = 1 << 20
"""Bytes of a body that the event loop parses and compresses; larger ones go to a thread."""
SMALLEST_COMPRESSED = 1024
"""Bytes of a reply below which compression is not worth its time; the value is TensorFlow Serving's."""
LARGEST_VERSION = (1 << 63) - 1
BACKLOG = 4096
"""Connections that wait for the event loop; thousands of clients may connect at once."""
LINGER_SECONDS = 1.0
"""How long the server reads the rest of a request that it has already rejected, so that the client gets the reply."""
JSON = "application/json"
CORS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "POST, GET",
    "Access-Control-Allow-Headers": "Content-Type",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RestOptions:
    """Settings of the REST server; an empty host means all addresses, an empty path of metrics turns them off."""

    host: str
    port: int
    timeout_seconds: float | None = 30.0
    grace_seconds: float = 30.0
    cors: bool = False
    metrics_path: str = ""
    tls: ssl.SSLContext | None = None


@dataclass(slots=True)
class Reply:
    """The status, body and type of a reply."""

    body: bytes
    status: int = 200
    content_type: str = JSON


class RestServer:
    """Answers HTTP requests. `not_ready` returns the reasons why the server is not ready."""

    def __init__(
        self, predictor: Predictor, metrics: Metrics, not_ready: Callable[[], Sequence[str]], options: RestOptions
    ) -> None:
        self.predictor = predictor
        self.metrics = metrics
        self.not_ready = not_ready
        self.options = options
        self._is_stopping = False
        self._runner: web.ServerRunner | None = None

    async def start(self) -> None:
        """Listen; raise InvalidConfig if the port is in use."""
        loop = asyncio.get_running_loop()

        def request(
            message: Any, payload: Any, protocol: Any, writer: AbstractStreamWriter, task: asyncio.Task[None]
        ) -> web.BaseRequest:
            return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=LARGEST_BODY)

        server = web.Server(
            self.handle,
            request_factory=request,
            handler_cancellation=True,
            access_log=None,
            logger=quiet,
            lingering_time=LINGER_SECONDS,
        )
        options = self.options
        self._runner = web.ServerRunner(server, shutdown_timeout=options.grace_seconds)
        await self._runner.setup()
        host = options.host or None
        site = web.TCPSite(self._runner, host, options.port, ssl_context=options.tls, backlog=BACKLOG)
        try:
            await site.start()
        except OSError as error:
            await self.stop()
            reason = os.strerror(error.errno).lower() if error.errno else str(error)
            raise InvalidConfig(
                f"REST cannot listen on port {options.port}: {reason}", "Choose another --rest_api_port or --host."
            ) from None

    def close_connections(self) -> None:
        """Answer further requests, but close the connection of each after its reply."""
        self._is_stopping = True

    async def stop(self) -> None:
        """Stop listening, and finish running requests within the grace period."""
        self.close_connections()
        if self._runner:
            await self._runner.cleanup()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request; called by aiohttp."""
        headers = CORS if self.options.cors else {}
        try:
            reply = await self._answer(request)
        except Status as status:
            reply = Reply(json_api.error_reply(status.message), status.code.http)
        except web.HTTPRequestEntityTooLarge:
            message = f"the request has more than {LARGEST_BODY} bytes; use gRPC for larger ones"
            reply = Reply(json_api.error_reply(message), HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            reply = Reply(json_api.error_reply("the server failed; its log has the cause"), 500)
        response = await _compressed(request, reply, headers)
        if self._is_stopping:
            response.force_close()  # so that the client does not send its next request to a closed connection
        return response

    async def _answer(self, request: web.BaseRequest) -> Reply:
        method, path = request.method, request.path
        if method == "GET":
            if path in ("/healthz", "/readyz"):
                return self._probe(path)
            if path == self.options.metrics_path:
                return Reply(self.metrics.page().encode(errors="replace"), content_type=CONTENT_TYPE)
        if method == "OPTIONS" and self.options.cors:
            if request.headers.get("Origin", "").startswith(("http://", "https://")):
                return Reply(b"")
            raise invalid("the request has no Origin that starts with http:// or https://")
        if path.lower().startswith("/v2"):
            return await self._answer_v2(request)
        if not path.lower().startswith("/v1/"):
            return Reply(json_api.error_reply(f"Malformed request: {method} {path}"), 404)
        route = MODEL.fullmatch(path)
        if not route or method != ("POST" if route["method"] else "GET"):
            raise invalid(f"Malformed request: {method} {path}")
        if not route["name"]:
            raise invalid("Missing model name in request.")
        spec = _spec(route)
        if route["method"]:
            return await self._run(route["method"].lower(), spec, request)
        if route["metadata"]:
            found = self.predictor.metadata(spec)
            return Reply(json_api.metadata_reply(found.name, found.version, found.signatures))
        rows = self.predictor.status(spec)
        return Reply(json_api.status_reply((row.version, row.state.name, row.code, row.message) for row in rows))

    async def _answer_v2(self, request: web.BaseRequest) -> Reply:
        """Answer a request of the Open Inference Protocol."""
        method, path = request.method, request.path
        if method == "GET" and (found := inference_v2.documents(self.predictor, self.not_ready(), path)):
            return Reply(json_api.dump(found[0]), found[1])
        route = inference_v2.MODEL.fullmatch(path)
        if method == "POST" and route and route["action"] == "/infer":
            return await self._run("infer", _spec(route), request)
        return Reply(json_api.error_reply(f"Malformed request: {method} {path}"), 404)

    def _probe(self, path: str) -> Reply:
        reasons = self.not_ready() if path == "/readyz" else ()
        text = "".join(f"{reason}\n" for reason in reasons) or "ok\n"
        return Reply(text.encode(), 503 if reasons else 200, "text/plain; charset=utf-8")

    async def _run(self, method: str, spec: ModelSpec, request: web.BaseRequest) -> Reply:
        """Answer a request to predict, classify or regress, and count it."""
        begin = time.perf_counter()  # uvloop's clock counts whole milliseconds
        limit = self.options.timeout_seconds
        deadline = None if limit is None else asyncio.get_running_loop().time() + limit
        code = Code.UNKNOWN
        try:
            async with asyncio.timeout_at(deadline):
                reply = Reply(await getattr(self, f"_{method}")(spec, await _body(request), deadline))
            code = Code.OK
            return reply
        except Status as status:
            code = status.code
            raise
        except TimeoutError:
            code = Code.DEADLINE_EXCEEDED
            raise Status(code, f"the request took longer than {limit} s") from None
        except asyncio.CancelledError:
            code = Code.CANCELLED
            raise
        finally:
            self.metrics.request(spec.name, code.name, method, "REST", time.perf_counter() - begin)

    async def _predict(self, spec: ModelSpec, body: bytes, deadline: float | None) -> bytes:
        document = await _apart(len(body), lambda: json_api.parse(body))
        spec = _with_signature(spec, document)
        try:
            signature = self.predictor.signature(spec)
        except Status as status:
            if status.code is Code.FAILED_PRECONDITION:
                raise invalid(f'Serving signature name: "{spec.signature}" not found in signature def') from None
            raise
        inputs, has_rows = await _apart(len(body), lambda: json_api.predict_inputs(document, signature))
        prediction = await self.predictor.predict(spec, inputs, deadline=deadline)
        return await _apart(_size(prediction), lambda: json_api.predict_reply(prediction.outputs, has_rows))

    async def _infer(self, spec: ModelSpec, body: bytes, deadline: float | None) -> bytes:
        request = await _apart(len(body), lambda: inference_v2.read_request(body))
        spec = replace(spec, signature=request.signature)
        prediction = await self.predictor.predict(spec, request.inputs, request.outputs, deadline)
        return await _apart(_size(prediction), lambda: inference_v2.infer_reply(request, prediction))

    async def _classify(self, spec: ModelSpec, body: bytes, deadline: float | None) -> bytes:
        document = json_api.parse(body)
        examples = json_api.examples(document)
        prediction = await self.predictor.classify(_with_signature(spec, document), examples, deadline)
        return json_api.classify_reply(prediction.outputs)

    async def _regress(self, spec: ModelSpec, body: bytes, deadline: float | None) -> bytes:
        document = json_api.parse(body)
        examples = json_api.examples(document)
        prediction = await self.predictor.regress(_with_signature(spec, document), examples, deadline)
        return json_api.regress_reply(prediction.outputs)


def tls_context(tls: Tls) -> ssl.SSLContext:
    """Return the context of a server; raise InvalidConfig if the texts are not a key and its certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # Python reads key and certificate only from a file; this one is in memory, so that the key is never on a disk.
    with os.fdopen(os.memfd_create("tls"), "wb") as file:
        file.write(f"{tls.server_key}\n{tls.server_cert}\n".encode())
        file.flush()
        try:
            context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
            if tls.custom_ca:
                context.load_verify_locations(cadata=tls.custom_ca)
        except (ssl.SSLError, ValueError) as error:
            raise InvalidConfig(f"the TLS key and certificates do not work: {error}") from None
    if tls.client_verify:
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _spec(route: re.Match[str]) -> ModelSpec:
    digits = (route["version"] or "")[: inference_v2.LONGEST_VERSION]
    version = int(digits) if digits else None
    if version is not None and version > LARGEST_VERSION:
        raise invalid(f"the version {digits} is larger than {LARGEST_VERSION}")
    return ModelSpec(route["name"], version, route.groupdict().get("label") or "")


def _with_signature(spec: ModelSpec, document: json_api.Document) -> ModelSpec:
    return replace(spec, signature=document.get("signature_name", ""))


def _size(prediction: Prediction) -> int:
    return sum(output.nbytes for output in prediction.outputs.values())


async def _body(request: web.BaseRequest) -> bytes:
    if request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # aiohttp would take the interim reply for the start of the real one
    try:
        return await request.read()
    except (web.RequestPayloadError, HttpProcessingError, zlib.error) as error:
        raise invalid(f"the body of the request cannot be read: {error}") from None


async def _apart(size: int, work: Callable[[], T]) -> T:
    """Run work in a thread if it concerns many bytes, so that other requests do not wait for all of it."""
    return work() if size <= LARGEST_INLINE else await asyncio.to_thread(work)


async def _compressed(request: web.BaseRequest, reply: Reply, headers: Mapping[str, str]) -> web.Response:
    body = reply.body
    all_headers = {"Content-Type": reply.content_type, **headers}
    if len(body) > SMALLEST_COMPRESSED and _accepts_gzip(request.headers.get("Accept-Encoding", "")):
        body = await _apart(len(body), lambda: gzip.compress(reply.body, compresslevel=1))
        all_headers["Content-Encoding"] = "gzip"
    return web.Response(body=body, status=reply.status, headers=all_headers)


def _accepts_gzip(header: str) -> bool:
    for part in header.lower().split(","):
        coding, _, weight = part.partition(";")
        if coding.strip() == "gzip":
            return not re.fullmatch(r"q=0(\.0*)?", weight.strip())
    return False
