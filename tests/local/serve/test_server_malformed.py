"""Malformed JSON, HTTP and HTTP/2 for a real server: it survives, and reports the fault of the client.

`test_grpc_fuzz.py` does the same with messages of gRPC.
"""

from __future__ import annotations

import http.client
import json
import random
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from support.serve.server_process import ServerProcess, read_reply

JSON_REQUESTS = 5000
HTTP_REQUESTS = 1000
JSON_PARTS = [
    '{"instances": [1, 2]}',
    '{"inputs": {"x": [1.5]}}',
    '{"signature_name": "serving_default", "instances": [{"x": NaN}]}',
    '{"signature_name": "strings", "inputs": {"suffix": {"b64": "IQ=="}, "words": ["a"]}}',
    '{"signature_name": "two_inputs", "instances": [{"a": [1, 2], "b": 3}]}',
    '{"signature_name": "every_type", "instances": [{"bool": true, "int8": 1}]}',
    '{"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [1]}], "outputs": [{"name": "y"}]}',
    '{"signature_name": "classify", "context": {"x": 1.0}, "examples": [{"x": 3.0}, {"y": ["a"]}]}',
]
TOKENS = [
    "{", "}", "[", "]", ",", ":", '"', "null", "true", "NaN", "-Infinity", "1e999", "1e39", "-1", "7",
    "18446744073709551616",
    '"b64"', '{"b64": 1}', '{"b64": "?"}', '"x"', "\\ud800", "\x00", "\u00e4", "[" * 600, '"instances"', '"inputs"',
]  # fmt: skip
ROUTES = [
    "v1/models/half:predict",
    "v1/models/half:classify",
    "v1/models/half:regress",
    "v1/models/half/versions/3:predict",
    "v1/models/half/labels/x:predict",
    "v1/models/no:predict",
    "v2/models/half/infer",
]
HTTP_PARTS = [
    b"POST /v1/models/half:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n",
    b"GET /v1/models/half HTTP/1.1\r\nHost: x\r\n\r\n",
    b"POST /v1/models/half:predict HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n",
    b"GET /v2/models/half HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nAccept-Encoding: gzip\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x08",
]
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


@pytest.fixture(scope="module")
def server(saved_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("malformed")
    with ServerProcess(folder, "--model_name=half", f"--model_base_path={saved_models / 'half'}") as process:
        yield process
        assert "Traceback" not in process.text()


def assert_unharmed(server: ServerProcess) -> None:
    assert server.process.poll() is None
    assert server.predict("half", {"instances": [1]}) == (200, {"predictions": [{"y": 3.5, "offset": 3.0}]})
    assert "Traceback" not in server.text()


def mutate_text(draw: random.Random, text: str) -> str:
    """Insert, remove and replace parts of a text."""
    for _ in range(draw.randint(0, 3)):
        begin = draw.randrange(len(text) + 1)
        end = min(len(text), begin + draw.choice([0, 0, 1, 1, 5]))
        text = text[:begin] + draw.choice([*TOKENS, ""]) + text[end:]
    return text


def mutate_bytes(draw: random.Random, data: bytes) -> bytes:
    for _ in range(draw.randint(1, 4)):
        begin = draw.randrange(len(data) + 1)
        end = min(len(data), begin + draw.choice([0, 1, 1, 4]))
        data = data[:begin] + draw.randbytes(draw.choice([0, 1, 1, 4])) + data[end:]
    return data


def test_malformed_json_is_the_fault_of_the_client(server: ServerProcess, seed: int) -> None:
    draw = random.Random(seed)
    statuses: Counter[int] = Counter()
    with closing(http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=60)) as connection:
        for _ in range(JSON_REQUESTS):
            text = mutate_text(draw, draw.choice(JSON_PARTS))
            body = text.encode("utf-8", "surrogatepass")
            connection.request("POST", f"/{draw.choice(ROUTES)}", body)
            status, document = read_reply(connection)
            assert status in (200, 400, 404), (text, document)
            assert status == 200 or list(document) == ["error"]
            statuses[status] += 1
    assert min(statuses[200], statuses[400], statuses[404]) > 0
    assert_unharmed(server)


def test_malformed_http_does_not_stop_the_server(server: ServerProcess, seed: int) -> None:
    draw = random.Random(seed)
    answered = 0
    for _ in range(HTTP_REQUESTS):
        data = mutate_bytes(draw, draw.choice(HTTP_PARTS))
        answered += bool(exchange(server.rest_port, data))
    assert answered > 0
    assert_unharmed(server)


def test_malformed_http2_does_not_stop_the_server(server: ServerProcess, seed: int) -> None:
    draw = random.Random(seed)
    answered = 0
    for _ in range(HTTP_REQUESTS):
        frames = b"".join(frame(draw) for _ in range(3))
        answered += bool(exchange(server.port, draw.choice([PREFACE, PREFACE, mutate_bytes(draw, PREFACE)]) + frames))
    assert answered > 0
    assert_unharmed(server)


def frame(draw: random.Random) -> bytes:
    """Return an HTTP/2 frame of random type, flags, stream and content; its length is sometimes wrong."""
    content = draw.randbytes(draw.choice([0, 4, 5, 8, 20]))
    length = len(content) + draw.choice([0, 0, 0, 1, 1 << 20])
    kind, flags, stream = draw.randrange(11), draw.randrange(256), draw.choice([0, 1, 3, 1 << 30])
    return length.to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + content


def exchange(port: int, data: bytes) -> bytes:
    """Send bytes, and return what the server sends until it closes the connection."""
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection, suppress(ConnectionError):
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        while part := connection.recv(65536):
            received += part
    return received


def test_requests_are_valid_before_they_are_changed() -> None:
    assert all(isinstance(json.loads(text), dict) for text in JSON_PARTS)
