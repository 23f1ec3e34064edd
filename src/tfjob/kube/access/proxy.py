"""The proxy between us and an API server: HTTPS_PROXY, HTTP_PROXY and NO_PROXY, with networks as kubectl has them."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import SplitResult, urlsplit

from tfjob.kube.access.errors import ConfigError


def proxy_for(server: str, environ: Mapping[str, str]) -> str:
    """Return the proxy that the environment asks for; empty for none. Raises ConfigError."""
    url = urlsplit(server)
    proxy = _variable(environ, f"{url.scheme}_proxy")
    if not proxy or _bypassed(url, _variable(environ, "no_proxy")):
        return ""
    return usable(proxy if "://" in proxy else f"http://{proxy}")


def usable(proxy: str) -> str:
    """Return the proxy if it is supported. Raises ConfigError."""
    url = urlsplit(proxy)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ConfigError(f"the proxy {url.scheme}://{url.hostname or ''} is not supported", "Use an HTTP proxy.")
    return proxy


def _variable(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name.upper()) or environ.get(name) or ""


def _bypassed(url: SplitResult, exceptions: str) -> bool:
    # It takes 40 ms to load, so only where there is a proxy.
    from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

    host, port = url.hostname or "", url.port or (443 if url.scheme == "https" else 80)
    items = [item.strip().removeprefix("*.") for item in exceptions.split(",")]
    if host == "localhost" or "*" in items or proxy_bypass_environment(f"{host}:{port}", {"no": ",".join(items)}):
        return True
    with suppress(ValueError):  # the host is a name, or an item not a valid network
        address = ipaddress.ip_address(host)
        networks = (ipaddress.ip_network(item, strict=False) for item in items if "/" in item)
        return address.is_loopback or any(address in network for network in networks)
    return False
