"""TLS between a client and a server that requests certificates."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from support.golden import Wording
from support.kube.api_server import ApiServer, refuse, reply
from support.kube.kube_files import Authority, b64, kubeconfig
from support.kube.secured import secured
from tfjob.kube.access import config, tls
from tfjob.kube.access.errors import ConfigError, Unreachable
from tfjob.kube.access.tls import Certificate, Trust
from tfjob.kube.client.client import Client


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def ask(server: ApiServer, folder: Path, cluster: dict[str, Any], user: dict[str, Any]) -> str:
    async def run() -> str:
        async with server:
            address = {"server": f"https://127.0.0.1:{server.port}"}
            file = kubeconfig(folder / "config", cluster=address | cluster, user=user)
            async with Client(config.load(None, {"KUBECONFIG": str(file)})) as client:
                return (await client.request("GET", "/")).decode()

    return asyncio.run(run())


def test_a_client_certificate_given_as_data(tmp_path: Path, authority: Authority) -> None:
    me = authority.sign("me")
    user = {"client-certificate-data": b64(me.certificate), "client-key-data": b64(me.key)}
    cluster = {"certificate-authority-data": b64(authority.pem)}
    assert ask(secured(authority, "127.0.0.1"), tmp_path, cluster, user) == '{"user":"me"}'


def test_a_client_certificate_given_as_files(tmp_path: Path, authority: Authority) -> None:
    authority.sign("me")
    user = {"client-certificate": "me.crt", "client-key": "me.key"}
    assert ask(secured(authority, "127.0.0.1"), tmp_path, {"certificate-authority": "ca.crt"}, user) == '{"user":"me"}'


def test_a_server_with_another_name_is_trusted_with_that_name_only(tmp_path: Path, authority: Authority) -> None:
    cluster = {"certificate-authority": "ca.crt"}
    with pytest.raises(Unreachable, match="IP address mismatch"):
        ask(secured(authority, "kubernetes"), tmp_path, cluster, {})
    assert ask(secured(authority, "kubernetes"), tmp_path, cluster | {"tls-server-name": "kubernetes"}, {})


def test_a_server_of_another_ca_is_trusted_only_if_requested(
    tmp_path: Path, authority: Authority, wording: Wording
) -> None:
    (tmp_path / "other").mkdir()
    cluster = {"certificate-authority-data": b64(Authority(tmp_path / "other").pem)}
    with pytest.raises(Unreachable, match="certificate") as caught:
        ask(secured(authority, "127.0.0.1"), tmp_path, cluster, {})
    wording(re.sub(r"127\.0\.0\.1:\d+|(?<= \().*(?=\))", "...", str(caught.value)))
    assert ask(secured(authority, "127.0.0.1"), tmp_path, {"insecure-skip-tls-verify": True}, {})


def test_a_replaced_certificate_is_used_after_a_rejection(tmp_path: Path, authority: Authority) -> None:
    async def run() -> tuple[bytes, bytes]:
        async with secured(authority, "127.0.0.1") as server:
            authority.sign("me")
            file = kubeconfig(
                tmp_path / "config",
                cluster={"server": f"https://127.0.0.1:{server.port}", "certificate-authority": "ca.crt"},
                user={"client-certificate": "me.crt", "client-key": "me.key"},
            )
            async with Client(config.load(None, {"KUBECONFIG": str(file)})) as client:
                first = await client.request("GET", "/")
                renewed = authority.sign("renewed")
                (tmp_path / "me.crt").write_bytes(renewed.certificate)
                (tmp_path / "me.key").write_bytes(renewed.key)
                server.answers.append(refuse(401, "Unauthorized"))
                return first, await client.request("POST", "/")

    assert asyncio.run(run()) == (b'{"user":"me"}', b'{"user":"renewed"}')


def test_unusable_files_are_named(tmp_path: Path, authority: Authority, wording: Wording) -> None:
    with pytest.raises(ConfigError, match="/nowhere") as no_file:
        tls.context(Trust(authority_file="/nowhere"))
    with pytest.raises(ConfigError, match="certificate-authority-data") as no_certificate:
        tls.context(Trust(authority=b"nonsense"))
    me, other = authority.sign("me"), authority.sign("other")
    with pytest.raises(ConfigError) as no_pair:
        tls.context(Trust(), Certificate(me.certificate, other.key))
    with pytest.raises(ConfigError, match="PEM") as no_pem:
        tls.context(Trust(), Certificate(b"x", b"y"))
    wording(no_file.value, no_certificate.value, no_pair.value, no_pem.value)


def test_a_key_with_a_passphrase_is_rejected_without_a_prompt(authority: Authority, wording: Wording) -> None:
    from cryptography.hazmat.primitives import serialization

    me = authority.sign("me")
    key = serialization.load_pem_private_key(me.key, None)
    locked = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    with pytest.raises(ConfigError, match="passphrase") as caught:
        tls.context(Trust(), Certificate(me.certificate, locked))
    wording(caught.value)


def test_a_connection_that_was_closed_while_idle_is_not_reused(tmp_path: Path, authority: Authority) -> None:
    """A write over it would be lost."""
    server = secured(authority, "127.0.0.1")
    transports: list[asyncio.Transport] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        transports.append(request.transport)
        return await reply("first")(request)

    async def run() -> bytes:
        async with server:
            server.answers += [answer, reply("second")]
            address = {"server": f"https://127.0.0.1:{server.port}", "certificate-authority-data": b64(authority.pem)}
            file = kubeconfig(tmp_path / "config", cluster=address, user={})
            async with Client(config.load(None, {"KUBECONFIG": str(file)})) as client:
                await client.request("GET", "/")
                transports[0].abort()
                await asyncio.sleep(0.2)  # rounds of the event loop, in which the client notices it
                async with asyncio.timeout(60):
                    return await client.request("POST", "/", body={})

    assert asyncio.run(run()) == b'"second"'
