"""The operator's HTTP servers: `/healthz`, `/readyz` and `/metrics`, as controller-runtime serves them.

Each check also has its own path; `?verbose` shows all checks.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from tfjob.kube.access.errors import ConfigError
from tfjob.operator.options import Address

Check = Callable[[], str]
"""Returns what is wrong; an empty string if nothing is."""


@asynccontextmanager
async def serving(app: web.Application, address: Address, secure: ssl.SSLContext | None = None) -> AsyncIterator[None]:
    """Serve an application during a block, unless the port is 0. Raises ConfigError for a bad address."""
    if not address.port:
        yield
        return
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, address.host or None, address.port, ssl_context=secure).start()
        except OSError as error:
            reason = os.strerror(error.errno).lower() if error.errno else str(error)
            raise ConfigError(
                f"cannot listen on {address}: {reason}",
                "Choose other addresses with --metrics-bind-address, --health-probe-bind-address and"
                " --webhook-bind-address; 0 turns a server off.",
            ) from None
        yield
    finally:
        await runner.cleanup()


def health_app(healthy: Mapping[str, Check], ready: Mapping[str, Check]) -> web.Application:
    """Return the endpoints for the kubelet. A standby is ready too: a rollout waits for it."""
    app = web.Application()
    for path, checks in (("/healthz", healthy), ("/livez", healthy), ("/readyz", ready)):
        app.router.add_get(path, _answering(path, checks))
        app.router.add_get(path + "/{check}", _answering(path, checks))
    return app


def metrics_app(registry: CollectorRegistry) -> web.Application:
    async def exposition(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.router.add_get("/metrics", exposition)
    return app


def _answering(path: str, checks: Mapping[str, Check]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(request: web.Request) -> web.Response:
        only = request.match_info.get("check")
        if only is not None and only not in checks:
            return web.Response(status=404, text=f"unknown check {only}; the checks are {', '.join(checks)}\n")
        asked = checks if only is None else {only: checks[only]}
        found = {name: check() for name, check in asked.items()}
        failed = any(found.values())
        if not failed and "verbose" not in request.query:
            return web.Response(text="ok")
        lines = [f"[-]{name} failed: {fault}" if fault else f"[+]{name} ok" for name, fault in found.items()]
        lines.append(f"{path.strip('/')} check {'failed' if failed else 'passed'}")
        return web.Response(status=500 if failed else 200, text="\n".join(lines) + "\n")

    return answer
