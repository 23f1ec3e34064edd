"""`/healthz`, `/readyz` and `/metrics`, as controller-runtime serves them: a path a check, `?verbose` for all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

Check = Callable[[], str]
"""Says what is wrong; nothing means that all is well."""


def probes(healthy: Mapping[str, Check], ready: Mapping[str, Check]) -> web.Application:
    """Return the kubelet's endpoints. A standby is ready: it could serve, and a rollout waits for it."""
    app = web.Application()
    for path, checks in (("/healthz", healthy), ("/livez", healthy), ("/readyz", ready)):
        app.router.add_get(path, _answering(path, checks))
        app.router.add_get(path + "/{check}", _answering(path, checks))
    return app


def metrics(registry: CollectorRegistry) -> web.Application:
    async def exposition(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.router.add_get("/metrics", exposition)
    return app


def _answering(path: str, checks: Mapping[str, Check]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(request: web.Request) -> web.Response:
        only = request.match_info.get("check")
        if only is not None and only not in checks:
            return web.Response(status=404, text=f"no check {only}; there are {', '.join(checks)}\n")
        asked = checks if only is None else {only: checks[only]}
        found = {name: check() for name, check in asked.items()}
        failed = any(found.values())
        if not failed and "verbose" not in request.query:
            return web.Response(text="ok")
        lines = [f"[-]{name} failed: {fault}" if fault else f"[+]{name} ok" for name, fault in found.items()]
        lines.append(f"{path.strip('/')} check {'failed' if failed else 'passed'}")
        return web.Response(status=500 if failed else 200, text="\n".join(lines) + "\n")

    return answer
