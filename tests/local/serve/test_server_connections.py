"""Clients that are slow, idle or do not read: the requests of others are answered meanwhile."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import grpc
import pytest

from support.serve.server_process import ServerProcess, predict_over_grpc

IDLE = 10_000
"""The number of idle connections: half of them over gRPC, half over REST."""
MOST_MEMORY = 150_000_000
"""Bytes that they may cost."""
ROUNDS = 20


@pytest.fixture(scope="module")
def server(saved_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("connections")
    with ServerProcess(folder, "--model_name=half", f"--model_base_path={saved_models / 'half'}") as process:
        yield process


@pytest.fixture
def many_files() -> Iterator[None]:
    """Allow this process as many open files as the system does."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def assert_answers(server: ServerProcess) -> None:
    for _ in range(ROUNDS):
        assert server.predict("half", {"instances": [1]})[0] == 200
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        for _ in range(ROUNDS):
            assert predict_over_grpc(channel, "half", x=1.0).outputs["y"].float_val == [3.5]


def memory(server: ServerProcess) -> int:
    """Return the bytes of RAM that belong to the server alone."""
    for line in Path(f"/proc/{server.process.pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the kernel does not report RssAnon")


@pytest.mark.usefixtures("many_files")
def test_idle_connections_cost_little(server: ServerProcess) -> None:
    assert_answers(server)
    before = memory(server)
    with ExitStack() as connections:
        for number in range(IDLE):
            port = server.port if number % 2 else server.rest_port
            connections.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
        assert_answers(server)
        assert memory(server) - before < MOST_MEMORY
    assert_answers(server)


@pytest.mark.parametrize(
    "begun",
    [
        b"POST /v1/models/half:pre",
        b"POST /v1/models/half:predict HTTP/1.1\r\nHost: x\r\nX-Long: ",
        b"POST /v1/models/half:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{",
        b"POST /v1/models/half:predict HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
    ],
)
def test_slow_senders_do_not_hold_up_others(begun: bytes, server: ServerProcess) -> None:
    with ExitStack() as connections:
        for _ in range(100):
            connection = socket.create_connection(("127.0.0.1", server.rest_port), timeout=60)
            connections.enter_context(connection)
            connection.sendall(begun)
        assert_answers(server)


def test_clients_that_do_not_read_do_not_hold_up_others(server: ServerProcess) -> None:
    request = b"GET /v1/models/half/metadata HTTP/1.1\r\nHost: x\r\n\r\n"
    with ExitStack() as connections:
        for _ in range(20):
            connection = socket.create_connection(("127.0.0.1", server.rest_port), timeout=60)
            connections.enter_context(connection)
            connection.setblocking(False)
            sent = 0
            while sent < 10_000_000:
                try:
                    sent += connection.send(request * 1000)
                except BlockingIOError:
                    break
            assert sent < 10_000_000, "the server must stop reading if its replies are not read"
        assert_answers(server)
