"""HTTP responses in any pieces, of any length, compressed, broken off, or invalid."""

from __future__ import annotations

import gzip
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.kube.answers import SIZED
from tfjob.kube.http.answer import HEAD_LIMIT, Answer

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;ext=1\r\nlo\r\n0\r\nTrailer: x\r\n\r\n"
ANSWERS = [
    (SIZED, 200, b"hello", True),
    (CHUNKED, 200, b"hello", True),
    (b"HTTP/1.1 100 Continue\r\n\r\n" + SIZED, 200, b"hello", True),
    (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", True),
    (b"HTTP/1.1 404 Not Found\r\ncontent-length:0\r\n\r\n", 404, b"", True),
    (b"HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 1\r\n\r\nx", 200, b"x", False),
    (b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, b"x", False),
    (SIZED + b"more", 200, b"hello", False),
]


def fed(*pieces: bytes) -> Answer:
    answer = Answer()
    for piece in pieces:
        if not answer.complete:
            answer.feed(piece)
    return answer


@pytest.mark.parametrize(("data", "status", "body", "keep_alive"), ANSWERS)
def test_an_answer_that_arrives_at_once(data: bytes, status: int, body: bytes, keep_alive: bool) -> None:
    answer = fed(data)
    assert (answer.complete, answer.status, answer.body(), answer.keep_alive) == (True, status, body, keep_alive)


@given(answer=st.sampled_from(ANSWERS[:-1]), cuts=st.sets(st.integers(0, 120)))
def test_an_answer_that_arrives_in_any_pieces(answer: tuple[bytes, int, bytes, bool], cuts: set[int]) -> None:
    data, status, body, keep_alive = answer
    bounds = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    got = fed(*(data[start:end] for start, end in pairwise(bounds)))
    assert (got.complete, got.status, got.body(), got.keep_alive) == (True, status, body, keep_alive)


def test_headers_are_found_whatever_their_case() -> None:
    assert fed(SIZED).headers == {"content-length": "5", "x": "y: z"}


def test_without_a_length_the_end_of_the_connection_ends_the_answer() -> None:
    answer = fed(b"HTTP/1.1 200 OK\r\n\r\n", b"one", b"two")
    assert not answer.complete
    assert answer.end()
    assert (answer.body(), answer.keep_alive) == (b"onetwo", False)


@pytest.mark.parametrize("data", [SIZED, CHUNKED])
def test_an_incomplete_answer_is_rejected(data: bytes) -> None:
    for end in range(len(data)):
        assert not fed(data[:end]).end()


def test_a_compressed_answer_is_uncompressed() -> None:
    body = gzip.compress(b"hello" * 1000)
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    assert fed(head + body).body() == b"hello" * 1000
    with pytest.raises(ValueError, match="gzip"):
        fed(head + bytes(len(body))).body()


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * HEAD_LIMIT,
    ],
)
def test_bytes_that_are_not_http_are_rejected(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        fed(data)
