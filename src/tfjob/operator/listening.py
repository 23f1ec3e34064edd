"""Start the operator's servers at their addresses, with a clear error if an address is taken."""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from tfjob.kube.access.errors import ConfigError
from tfjob.operator.options import Address


@asynccontextmanager
async def serving(app: web.Application, address: Address, secure: ssl.SSLContext | None = None) -> AsyncIterator[None]:
    """Serve an application during a block; not at all on port 0. Raises ConfigError for a bad address."""
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
                f"cannot listen at {address}: {reason}",
                "Choose other addresses with --metrics-bind-address, --health-probe-bind-address and"
                " --webhook-bind-address, or 0 for none.",
            ) from None
        yield
    finally:
        await runner.cleanup()
