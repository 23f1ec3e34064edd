"""The HTTP of probes."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from tfjob.local.sandbox.container_probes import get


def ask(
    answer: bytes, headers: list[tuple[str, str]] | None = None, *, keep_open: bool = False
) -> tuple[str, str, int]:
    """Return the problem that a probe of a server finds, the request, and the port of the server."""
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor() as threads:
        port = server.getsockname()[1]
        problem = threads.submit(
            get, {"tls": False, "host": "127.0.0.1", "port": port, "path": "/a?b=c", "headers": headers or []}
        )
        connection, _ = server.accept()
        with connection:
            request = connection.recv(65536)
            connection.sendall(answer)
            if keep_open:
                return problem.result(60), request.decode(), port
        return problem.result(60), request.decode(), port


def test_a_request_has_the_headers_of_a_kubelet() -> None:
    _, request, port = ask(b"HTTP/1.1 200 OK\r\n\r\n")
    first, *lines = request.split("\r\n")
    assert first == "GET /a?b=c HTTP/1.1"
    assert {f"Host: 127.0.0.1:{port}", "Accept: */*", "Connection: close"} < set(lines)
    assert any(line.startswith("User-Agent: kube-probe/") for line in lines)
    assert lines[-2:] == ["", ""]


def test_the_headers_of_a_probe_replace_the_usual_ones() -> None:
    headers = [("host", "me.example"), ("X-Key", "1"), ("X-Key", "\u00e9")]
    _, request, _ = ask(b"HTTP/1.1 200 OK\r\n\r\n", headers)
    lines = request.split("\r\n")
    assert [line for line in lines if line.lower().startswith("host:")] == ["host: me.example"]
    assert [line for line in lines if line.startswith("X-Key:")] == ["X-Key: 1", "X-Key: \u00e9"]


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length:2\r\n\r\nhi",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n" + bytes(20_000),
    ],
)
def test_a_response_is_read_to_its_end_or_to_a_limit(answer: bytes) -> None:
    assert ask(answer, keep_open=True)[0] == ""


@pytest.mark.parametrize(
    ("answer", "good"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", True),
        (b"HTTP/1.0 302 Found\r\nLocation: /there\r\n\r\n", True),
        (b"HTTP/1.1 399\r\n", True),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", False),
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", False),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", False),
        (b"SSH-2.0-OpenSSH_9\r\n", False),
        (b"HTTP/1.1 OK\r\n", False),
        (b"", False),
    ],
)
def test_a_status_from_200_to_399_is_a_success(answer: bytes, good: bool) -> None:
    assert (ask(answer)[0] == "") is good
