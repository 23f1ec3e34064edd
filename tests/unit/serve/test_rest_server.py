from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from support.async_tests import async_test
from support.golden import Wording
from support.ports import free_port
from support.serve.toy_predictor import ToyPredictor
from tfjob.serve import rest_server
from tfjob.serve.config import InvalidConfig
from tfjob.serve.metrics import Metrics
from tfjob.serve.rest_server import RestOptions, RestServer

PREDICT = "/v1/models/double:predict"
BODY = b'{"instances": [1, 2]}'


@dataclass
class Running:
    """A server and a client for it."""

    port: int
    predictor: ToyPredictor
    metrics: Metrics
    reasons: list[str]
    session: aiohttp.ClientSession

    async def ask(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, Any, aiohttp.ClientResponse]:
        """Return the status, the JSON or the text, and the response."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        url = f"http://127.0.0.1:{self.port}{path}"
        async with self.session.request(method, url, data=body, headers=named) as response:
            text = await response.text()
            is_json = response.content_type == "application/json" and text
            return response.status, json.loads(text) if is_json else text, response

    async def raw(self, data: bytes) -> bytes:
        """Send bytes and return what the server sends until it closes the connection."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(data)
        await writer.drain()
        async with asyncio.timeout(30):
            received = await reader.read()
        writer.close()
        return received


@asynccontextmanager
async def running(**options: Any) -> AsyncIterator[tuple[Running]]:
    port = free_port()
    predictor, metrics, reasons = ToyPredictor(), Metrics(), list[str]()
    server = RestServer(predictor, metrics, lambda: reasons, RestOptions(host="127.0.0.1", port=port, **options))
    await server.start()
    try:
        async with aiohttp.ClientSession() as session:
            yield (Running(port, predictor, metrics, reasons, session),)
    finally:
        await server.stop()


@async_test(running)
async def test_predict_answers_rows_and_columns(server: Running) -> None:
    assert (await server.ask("POST", PREDICT, BODY))[:2] == (200, {"predictions": [2.0, 4.0]})
    assert (await server.ask("POST", PREDICT, b'{"inputs": [1, 2]}'))[:2] == (200, {"outputs": [2.0, 4.0]})
    for path in (
        "/v1/models/double/versions/3:predict",
        "/v1/models/double/labels/stable:predict",
        "/V1/Models/double:PREDICT",
    ):
        assert (await server.ask("POST", path, BODY))[0] == 200


@async_test(running)
async def test_classify_and_regress_answer_examples(server: Running) -> None:
    body = b'{"examples": [{"f": 1.0}, {"f": [2.0]}]}'
    assert (await server.ask("POST", "/v1/models/double:classify", body))[1] == {
        "results": [[["a", 1.0], ["b", 0.5]], [["a", 2.0], ["b", 0.5]]]
    }
    assert (await server.ask("POST", "/v1/models/double:regress", body))[1] == {"results": [1.0, 2.0]}


@async_test(running)
async def test_status_and_metadata_describe_a_model(server: Running) -> None:
    status, found, _ = await server.ask("GET", "/v1/models/double")
    assert status == 200
    assert [row["state"] for row in found["model_version_status"]] == ["AVAILABLE", "END"]
    _, found, _ = await server.ask("GET", "/v1/models/double/versions/3/metadata")
    assert found["model_spec"] == {"name": "double", "signature_name": "", "version": "3"}
    assert set(found["metadata"]["signature_def"]["signature_def"]) == {
        "serving_default",
        "text",
        "classify",
        "regress",
    }


FAILURES: list[tuple[int, str, str, bytes | None]] = [
    (400, "GET", "/v1/models", None),
    (400, "POST", "/v1/models:predict", BODY),
    (400, "GET", "/v1/nothing", None),
    (400, "GET", "/v1/", None),
    (400, "GET", PREDICT, None),
    (400, "POST", "/v1/models/double", BODY),
    (400, "DELETE", "/v1/models/double", None),
    (400, "OPTIONS", PREDICT, None),
    (400, "GET", "/v1/models/double/versions/x", None),
    (400, "GET", "/v1/models/double/versions/3/labels/stable", None),
    (400, "GET", "/v1/models/double/versions/99999999999999999999", None),
    (400, "GET", "/v1/models/double/labels/canary", None),
    (404, "GET", "/v1/models/other", None),
    (404, "GET", "/v1/models/other/metadata", None),
    (404, "POST", "/v1/models/double/versions/7:predict", BODY),
    (404, "GET", "/", None),
    (404, "POST", "/healthz", b""),
    (400, "POST", PREDICT, b""),
    (400, "POST", PREDICT, b'{"instances": ["x"]}'),
    (400, "POST", PREDICT, b'{"signature_name": "x", "instances": [1]}'),
    (400, "POST", "/v1/models/double:classify", b"{}"),
    (500, "POST", PREDICT, b'{"instances": [13]}'),
]


@async_test(running)
async def test_an_error_has_the_status_of_its_code(server: Running, *, wording: Wording) -> None:
    lines = []
    for expected, method, path, body in FAILURES:
        status, found, _ = await server.ask(method, path, body)
        assert (status, list(found)) == (expected, ["error"]), (method, path)
        lines.append(f"{method} {path} {(body or b'').decode()}  ->  {found['error']}")
    wording(*lines)


@async_test(running)
async def test_requests_are_counted_by_their_result(server: Running) -> None:
    await server.ask("POST", PREDICT, BODY)
    await server.ask("POST", PREDICT, b"{}")
    await server.ask("POST", "/v1/models/other:predict", BODY)
    page = server.metrics.page()
    for labels in ('"double",status="OK"', '"double",status="INVALID_ARGUMENT"', '"other",status="NOT_FOUND"'):
        assert f":tensorflow:serving:request_count{{model_name={labels}}} 1" in page
    assert 'request_latency_count{model_name="double",API="predict",entrypoint="REST"} 1' in page


@async_test(running, metrics_path="/metrics")
async def test_the_metrics_page_has_its_path(server: Running) -> None:
    status, text, response = await server.ask("GET", "/metrics")
    assert (status, response.content_type) == (200, "text/plain")
    assert "# TYPE :tensorflow:serving:request_count counter" in text


@async_test(running)
async def test_without_a_path_there_is_no_metrics_page(server: Running) -> None:
    assert (await server.ask("GET", "/monitoring/prometheus/metrics"))[0] == 404


@async_test(running)
async def test_probes_report_why_the_server_is_not_ready(server: Running) -> None:
    assert (await server.ask("GET", "/readyz"))[:2] == (200, "ok\n")
    server.reasons.append("the model m has no version")
    assert (await server.ask("GET", "/readyz"))[:2] == (503, "the model m has no version\n")
    assert (await server.ask("GET", "/healthz"))[0] == 200


@async_test(running, cors=True)
async def test_with_cors_every_reply_has_its_headers(server: Running) -> None:
    for method, path, status in (("POST", PREDICT, 200), ("GET", "/v1/models/other", 404)):
        found, _, response = await server.ask(method, path, BODY if method == "POST" else None)
        assert found == status
        assert response.headers["Access-Control-Allow-Origin"] == "*"
    status, _, response = await server.ask("OPTIONS", PREDICT, Origin="https://example.com")
    assert (status, response.headers["Access-Control-Allow-Methods"]) == (200, "POST, GET")
    assert (await server.ask("OPTIONS", PREDICT, Origin="file://x"))[0] == 400


@async_test(running)
async def test_without_cors_no_reply_has_its_headers(server: Running) -> None:
    _, _, response = await server.ask("POST", PREDICT, BODY, Origin="https://example.com")
    assert not [name for name in response.headers if name.startswith("Access-Control")]


@async_test(running)
async def test_bodies_may_be_compressed(server: Running) -> None:
    large = json.dumps({"instances": [1.5] * 1000}).encode()
    status, found, response = await server.ask(
        "POST", PREDICT, gzip.compress(large), Content_Encoding="gzip", Accept_Encoding="gzip"
    )
    assert (status, len(found["predictions"])) == (200, 1000)
    assert response.headers["Content-Encoding"] == "gzip"
    for accepted, body in (("gzip", BODY), ("identity", large), ("deflate, gzip;q=0", large)):
        _, _, response = await server.ask("POST", PREDICT, body, Accept_Encoding=accepted)
        assert "Content-Encoding" not in response.headers


@async_test(running)
async def test_a_body_that_is_not_gzip_is_an_error(server: Running) -> None:
    status, found, _ = await server.ask("POST", PREDICT, b"x" * 100, Content_Encoding="gzip")
    assert (status, list(found)) == (400, ["error"])


@async_test(running)
async def test_too_large_a_body_is_an_error(server: Running, *, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_server, "LARGEST_BODY", 1000)
    assert (await server.ask("POST", PREDICT, BODY))[0] == 200
    for body, headers in ((b"x" * 2000, {}), (gzip.compress(b"x" * 100_000), {"Content_Encoding": "gzip"})):
        status, found, _ = await server.ask("POST", PREDICT, body, **headers)
        assert (status, list(found)) == (413, ["error"])
    assert (await server.ask("POST", PREDICT, BODY))[0] == 200


@async_test(running)
async def test_large_bodies_are_parsed_in_a_thread(server: Running, *, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_server, "LARGEST_INLINE", 1)
    assert (await server.ask("POST", PREDICT, BODY))[:2] == (200, {"predictions": [2.0, 4.0]})
    assert (await server.ask("POST", PREDICT, b'{"instances": []}'))[0] == 400


@async_test(running)
async def test_clients_may_pipeline_chunk_and_wait_for_100(server: Running) -> None:
    head = f"POST {PREDICT} HTTP/1.1\r\nHost: x\r\n".encode()
    length = f"Content-Length: {len(BODY)}\r\n\r\n".encode()
    pipelined = await server.raw((head + length + BODY) * 2 + head + b"Connection: close\r\n" + length + BODY)
    assert pipelined.count(b"HTTP/1.1 200 OK") == 3
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (BODY[:5], BODY[5:])) + b"0\r\n\r\n"
    chunked = await server.raw(head + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks)
    assert b"200 OK" in chunked
    waiting = await server.raw(head + b"Connection: close\r\nExpect: 100-continue\r\n" + length + BODY)
    assert waiting.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")


@async_test(running)
async def test_bytes_that_are_not_http_are_an_error(server: Running) -> None:
    assert (await server.raw(b"\x00\x01\x02\r\n\r\n")).startswith(b"HTTP/1.0 400")
    assert (await server.ask("POST", PREDICT, BODY))[0] == 200


@async_test(running, timeout_seconds=0.2)
async def test_a_request_that_takes_too_long_is_an_error(server: Running) -> None:
    status, found, _ = await server.ask("POST", PREDICT, b'{"signature_name": "text", "instances": ["a"]}')
    assert (status, list(found)) == (504, ["error"])
    slow = f"POST {PREDICT} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 100\r\n\r\n{{".encode()
    assert b" 504 " in await server.raw(slow)


@async_test(running)
async def test_a_request_ends_when_its_client_disconnects(server: Running) -> None:
    body = b'{"signature_name": "text", "instances": ["a"]}'
    asking = asyncio.create_task(server.ask("POST", PREDICT, body))
    await until(lambda: server.predictor.running == 1)
    asking.cancel()
    await until(lambda: server.predictor.cancelled == 1)


async def until(condition: Any) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


async def _stop_while_a_request_runs() -> None:
    server = ToyPredictor()
    port = free_port()
    rest = RestServer(server, Metrics(), list, RestOptions(host="127.0.0.1", port=port))
    body = b'{"signature_name": "text", "instances": ["a"]}'
    url = f"http://127.0.0.1:{port}{PREDICT}"

    async with aiohttp.ClientSession() as session:

        async def ask() -> tuple[int, str | None]:
            async with session.post(url, data=body) as response:
                return response.status, response.headers.get("Connection")

        await rest.start()
        asking = asyncio.create_task(ask())
        await until(lambda: server.running == 1)
        stopping = asyncio.create_task(rest.stop())
        await asyncio.sleep(0)
        server.go.set()
        await stopping
        assert await asking == (200, "close")
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)


def test_a_server_that_stops_finishes_running_requests() -> None:
    asyncio.run(_stop_while_a_request_runs())


async def _listen_twice() -> None:
    async with running() as (server,):
        options = RestOptions(host="127.0.0.1", port=server.port)
        with pytest.raises(InvalidConfig, match=str(server.port)):
            await RestServer(ToyPredictor(), Metrics(), list, options).start()


def test_a_port_in_use_is_an_error() -> None:
    asyncio.run(_listen_twice())
