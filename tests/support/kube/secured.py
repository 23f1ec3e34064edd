"""An API server with TLS."""

from __future__ import annotations

import ssl

from aiohttp import web

from support.kube.api_server import ApiServer, reply
from support.kube.kube_files import Authority


async def who_am_i(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    shown = request.transport.get_extra_info("peercert")
    name = dict(field[0] for field in shown["subject"])["commonName"] if shown else ""
    return await reply({"user": name})(request)


def secured(authority: Authority, *hosts: str) -> ApiServer:
    signed = authority.sign("server", *hosts)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(signed.certificate_file, signed.key_file)
    context.load_verify_locations(authority.file)
    context.verify_mode = ssl.CERT_OPTIONAL
    return ApiServer(otherwise=who_am_i, secure=context)
