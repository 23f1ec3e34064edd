"""Which proxy, if any, is between us and an API server: HTTPS_PROXY, HTTP_PROXY and NO_PROXY as kubectl reads them."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit

from tfjob.kube.access.errors import ConfigError


def proxy_for(server: str, environ: Mapping[str, str]) -> str:
    """The proxy that the environment asks for, empty for none."""
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
    host = url.hostname or ""
    address = _address(host)
    if host == "localhost" or (address and address.is_loopback):
        return True
    port = url.port or (443 if url.scheme == "https" else 80)
    return any(_matches(item.strip().lower(), host, port, address) for item in exceptions.split(",") if item.strip())


def _matches(item: str, host: str, port: int, address: ipaddress.IPv4Address | ipaddress.IPv6Address | None) -> bool:
    if item == "*":
        return True
    if address is not None:
        try:
            return address in ipaddress.ip_network(item, strict=False)
        except ValueError:
            pass  # a name, or an address with a port
    name, _, wanted = item.rpartition(":") if item.rpartition(":")[2].isdecimal() else (item, "", "")
    if wanted and int(wanted) != port:
        return False
    name = name.strip("[]").removeprefix("*")
    return host == name.removeprefix(".") or (address is None and host.endswith(f".{name.removeprefix('.')}"))


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
