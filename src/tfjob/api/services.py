"""The rules of an API server for a Service whose types are correct."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tfjob.api.pod_validation import PROTOCOLS
from tfjob.api.problems import Path, Problem, invalid_value, problem_at, unsupported_value

CLUSTER_IP, EXTERNAL_NAME = "ClusterIP", "ExternalName"
TYPES = (CLUSTER_IP, EXTERNAL_NAME, "LoadBalancer", "NodePort")
_PORT_RULE = "must be between 1 and 65535, inclusive"
_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with"
    " an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is"
    " '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_NAME_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character,"
    " and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is"
    " '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_PORT_NAME_RULES = (
    (r".{0,15}", "must be no more than 15 characters"),
    (r"[-a-z0-9]*", "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"),
    (r".*[a-z].*", "must contain at least one letter (a-z)"),
    (r"(?!.*--).*", "must not contain consecutive hyphens"),
    (r"(?!-).*(?<!-)", "must not begin or end with a hyphen"),
)


def problems(service: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the problems of a Service with a valid object name, with the messages of an API server."""
    name, spec = service["metadata"]["name"], service.get("spec") or {}
    if not re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name):
        yield invalid_value(("metadata", "name"), name, _NAME_RULE)
    elif len(name) > 63:
        yield invalid_value(("metadata", "name"), name, "must be no more than 63 characters")
    kind, ports = spec.get("type") or CLUSTER_IP, spec.get("ports") or ()
    if not ports and kind != EXTERNAL_NAME and spec.get("clusterIP") != "None":
        yield problem_at(("spec", "ports"), "Required value")
    seen: set[Any] = set()
    for index, port in enumerate(ports):
        yield from _port_problems(port, ("spec", "ports", index), kind, seen, is_only=len(ports) == 1)
    yield from unsupported_value(spec.get("sessionAffinity"), ("ClientIP", "None"), ("spec", "sessionAffinity"))
    yield from unsupported_value(kind, TYPES, ("spec", "type"))
    if kind == EXTERNAL_NAME and not spec.get("externalName"):
        yield problem_at(("spec", "externalName"), "Required value")


def _port_problems(port: Mapping[str, Any], at: Path, kind: str, seen: set[Any], *, is_only: bool) -> Iterator[Problem]:
    """Yield the problems of one port; `seen` holds the names and numbers of the ports before it."""
    name, number, protocol = port.get("name") or "", port["port"], port.get("protocol") or "TCP"
    if not name and not is_only:
        yield problem_at((*at, "name"), "Required value")
    elif name and not (len(name) <= 63 and re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", name)):
        yield invalid_value((*at, "name"), name, _LABEL_RULE)
    elif name and name in seen:
        yield problem_at((*at, "name"), f"Duplicate value: {json.dumps(name)}")
    if not 1 <= number <= 65535:
        yield invalid_value((*at, "port"), number, _PORT_RULE)
    yield from unsupported_value(protocol, PROTOCOLS, (*at, "protocol"))
    if port.get("targetPort"):
        yield from _target_problems(port["targetPort"], (*at, "targetPort"))
    if port.get("nodePort") and kind == CLUSTER_IP:
        yield problem_at((*at, "nodePort"), f"Forbidden: may not be used when `type` is '{CLUSTER_IP}'")
    if (protocol, number) in seen:
        yield problem_at(at, f"Duplicate value: {protocol} port {number}")
    seen |= {name, (protocol, number)}


def _target_problems(target: int | str, at: Path) -> Iterator[Problem]:
    if isinstance(target, int):
        if not 1 <= target <= 65535:
            yield invalid_value(at, target, _PORT_RULE)
        return
    for pattern, rule in _PORT_NAME_RULES:
        if not re.fullmatch(pattern, target):
            yield invalid_value(at, target, rule)
