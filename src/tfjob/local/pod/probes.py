"""From the probes of a container to those of its supervisor: defaults, ports and addresses on this machine."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from tfjob.local.inputs.environment import expand
from tfjob.local.sandbox import pod_spec

FIELDS: Mapping[str, pod_spec.ProbeKind] = {
    "startupProbe": "startup",
    "readinessProbe": "readiness",
    "livenessProbe": "liveness",
}
_PATH = "/%:=&?~+!$,;'@()*[]#"
"""Further characters that are not quoted in the path of a request."""


def problems(container: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for field in FIELDS:
        if (probe := container.get(field)) and (problem := _problem(probe, container)):
            yield field, problem


def resolve(
    container: Mapping[str, Any], *, address: str, ports: Mapping[int, int], text: Callable[[str], str]
) -> dict[pod_spec.ProbeKind, pod_spec.Probe]:
    """Return the probes that this machine can run; `ports` are the replaced ones, `text` rewrites an argument."""
    found = {kind: container[field] for field, kind in FIELDS.items() if container.get(field)}
    return {
        kind: _probe(probe, container, address, ports, text)
        for kind, probe in found.items()
        if not _problem(probe, container)
    }


def _problem(probe: Mapping[str, Any], container: Mapping[str, Any]) -> str:
    target = probe.get("httpGet") or probe.get("tcpSocket")
    if not target:
        command = (probe.get("exec") or {}).get("command")
        return "" if command else "only exec, httpGet and tcpSocket probes run on this machine"
    if _port(target, container) is None:
        return f"the container has no port {target.get('port')!r}"
    return "" if _is_address(target.get("host")) else "its host must be an IPv4 address"


def _is_address(host: str | None) -> bool:
    try:
        return not host or host == "localhost" or bool(ipaddress.IPv4Address(host))
    except ValueError:
        return False


def _port(target: Mapping[str, Any], container: Mapping[str, Any]) -> int | None:
    """Return the port of a target, which may be the name of a port of the container."""
    named = {port.get("name"): port.get("containerPort") for port in container.get("ports") or []}
    port = target.get("port")
    if isinstance(port, str):
        port = int(port) if port.isdecimal() else named.get(port)
    return port if isinstance(port, int) and 0 < port < 65536 else None


def _probe(
    probe: Mapping[str, Any],
    container: Mapping[str, Any],
    address: str,
    ports: Mapping[int, int],
    text: Callable[[str], str],
) -> pod_spec.Probe:
    grace = probe.get("terminationGracePeriodSeconds")
    found: pod_spec.Probe = {
        "initialDelay": float(probe.get("initialDelaySeconds") or 0),
        "period": float(probe.get("periodSeconds") or 10),
        "timeout": float(probe.get("timeoutSeconds") or 1),
        "successThreshold": probe.get("successThreshold") or 1,
        "failureThreshold": probe.get("failureThreshold") or 3,
        "grace": None if grace is None else float(grace),
    }
    if not (target := probe.get("httpGet") or probe.get("tcpSocket")):
        # Like a kubelet, expand only variables whose value is in the manifest.
        static = {one["name"]: str(one.get("value") or "") for one in container.get("env") or []}
        found["exec"] = [text(expand(word, static)) for word in probe["exec"]["command"]]
        return found
    port = _port(target, container) or 0
    host = (target.get("host") or "").replace("localhost", "127.0.0.1")
    at: pod_spec.TcpSocket = {"host": host or address, "port": port if host else ports.get(port, port)}
    if not probe.get("httpGet"):
        found["tcp"] = at
        return found
    found["http"] = {
        **at,
        "tls": str(target.get("scheme") or "HTTP").upper() == "HTTPS",
        "path": "/" + quote(target.get("path") or "", safe=_PATH).removeprefix("/"),
        "headers": [(header["name"], header.get("value") or "") for header in target.get("httpHeaders") or []],
    }
    return found
