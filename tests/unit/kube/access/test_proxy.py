"""Requests through the tunnel of an HTTP proxy, with and without authentication."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from support.golden import Wording
from support.kube.api_server import ApiServer, reply
from support.kube.kube_files import Authority
from support.kube.secured import secured
from tfjob.durations import Durations
from tfjob.kube.access.errors import Unreachable
from tfjob.kube.access.tls import Trust
from tfjob.kube.client.client import Client


class Proxy:
    """An HTTP proxy that opens tunnels; with a password, only for clients that send it."""

    def __init__(self, password: str = "") -> None:
        self.targets: list[str] = []
        self._password = password
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.targets.append(head.split()[1])
        wanted = base64.b64encode(f"user:{self._password}".encode()).decode()
        if self._password and f"Proxy-Authorization: Basic {wanted}" not in head:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 4\r\n\r\nno!\n")
            writer.close()
            return
        host, _, port = self.targets[-1].rpartition(":")
        there_reader, there_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        for source, target in ((reader, there_writer), (there_reader, writer)):
            task = asyncio.create_task(self._copy(source, target))
            self._tasks.add(task)

    @staticmethod
    async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
        except OSError:
            pass
        finally:
            writer.close()


@pytest.mark.parametrize("secure", [False, True])
def test_requests_go_through_a_proxy(tmp_path: Path, secure: bool) -> None:
    async def run() -> None:
        authority = Authority(tmp_path)
        server = secured(authority, "127.0.0.1") if secure else ApiServer(otherwise=reply({"user": ""}))
        async with server, Proxy("a b") as proxy:
            access = replace(
                server.access(), proxy=f"http://user:a%20b@127.0.0.1:{proxy.port}", trust=Trust(authority=authority.pem)
            )
            if secure:
                access = replace(access, server=access.server.replace("http:", "https:"))
            async with Client(access) as client:
                assert await client.request("GET", "/") == b'{"user":""}'
                assert await client.request("POST", "/", body={}) == b'{"user":""}'
            assert proxy.targets == [f"127.0.0.1:{server.port}"]

    asyncio.run(run())


def test_an_error_of_the_proxy_is_reported(wording: Wording) -> None:
    async def run() -> None:
        async with ApiServer() as server, Proxy("secret") as proxy:
            access = replace(server.access(), proxy=f"http://127.0.0.1:{proxy.port}")
            async with Client(access, durations=Durations(read_retry=timedelta(0))) as client:
                with pytest.raises(Unreachable, match="407") as caught:
                    await client.request("GET", "/")
        wording(str(caught.value).replace(str(server.port), "PORT"))

    asyncio.run(run())
