"""The HTTP of probes."""

from __future__ import annotations

import pytest

from tfjob.local.sandbox.container_probes import is_complete, problem_of, request
from tfjob.local.sandbox.pod_spec import HttpGet


def test_a_request_has_the_headers_of_a_kubelet() -> None:
    http: HttpGet = {"tls": False, "host": "127.0.0.9", "port": 80, "path": "/a?b=c", "headers": []}
    first, *lines = request(http).decode().split("\r\n")
    assert first == "GET /a?b=c HTTP/1.1"
    assert {"Host: 127.0.0.9:80", "Accept: */*", "Connection: close"} < set(lines)
    assert any(line.startswith("User-Agent: kube-probe/") for line in lines)
    assert lines[-2:] == ["", ""]


def test_the_headers_of_a_probe_replace_the_usual_ones() -> None:
    headers = [("host", "me.example"), ("X-Key", "1"), ("X-Key", "2")]
    http: HttpGet = {"tls": False, "host": "127.0.0.9", "port": 80, "path": "/", "headers": headers}
    lines = request(http).decode().split("\r\n")
    assert [line for line in lines if line.lower().startswith("host:")] == ["host: me.example"]
    assert [line for line in lines if line.startswith("X-Key:")] == ["X-Key: 1", "X-Key: 2"]


@pytest.mark.parametrize(
    ("answer", "complete"),
    [
        (b"", False),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n", False),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nh", False),
        (b"HTTP/1.1 200 OK\r\ncontent-length:2\r\n\r\nhi", True),
        (b"HTTP/1.1 200 OK\r\n\r\nas long as it lasts", False),
        (b"HTTP/1.1 204 No Content\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n", False),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\n\r\n" + bytes(20_000), True),
        (bytes(20_000), True),
    ],
)
def test_a_response_is_read_to_its_end_or_to_a_limit(answer: bytes, complete: bool) -> None:
    assert is_complete(answer) is complete


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
    assert (problem_of(answer) == "") is good
