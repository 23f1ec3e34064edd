"""The rules of the API server for a Service."""

from __future__ import annotations

from typing import Any

import pytest

from tfjob.api.manifest.loader import read_object


def found(name: str = "web", **spec: Any) -> list[str]:
    spec = {"selector": {"app": "web"}, "ports": [{"port": 80}], **spec}
    _, problems = read_object({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec})
    return [f"{problem.path}: {problem.message}" for problem in problems]


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"ports": [{"port": 80, "targetPort": "http", "protocol": "UDP"}]},
        {"ports": [{"port": 80, "targetPort": 0}]},
        {"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 80, "protocol": "UDP"}]},
        {"clusterIP": "None", "ports": []},
        {"type": "ExternalName", "externalName": "example.org", "ports": []},
        {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30000}]},
        {"sessionAffinity": "ClientIP"},
    ],
)
def test_services_that_the_api_server_accepts(spec: dict[str, Any]) -> None:
    assert found(**spec) == []


@pytest.mark.parametrize(
    ("spec", "path", "text"),
    [
        ({"ports": []}, "spec.ports", "Required value"),
        ({"ports": [{"port": 99999}]}, "spec.ports[0].port", "Invalid value: 99999: must be between 1 and 65535"),
        ({"ports": [{"port": -1}]}, "spec.ports[0].port", "Invalid value: -1"),
        ({"ports": [{"port": 0}]}, "spec.ports[0].port", "Invalid value: 0"),
        ({"ports": [{"port": 80, "targetPort": 99999}]}, "spec.ports[0].targetPort", "Invalid value: 99999"),
        ({"ports": [{"port": 80, "targetPort": "80"}]}, "spec.ports[0].targetPort", "at least one letter"),
        ({"ports": [{"port": 80, "targetPort": "no_name"}]}, "spec.ports[0].targetPort", "only alpha-numeric"),
        ({"ports": [{"port": 80, "protocol": "FOO"}]}, "spec.ports[0].protocol", 'Unsupported value: "FOO"'),
        ({"ports": [{"port": 80, "nodePort": 30000}]}, "spec.ports[0].nodePort", "Forbidden"),
        ({"ports": [{"port": 80}, {"name": "b", "port": 81}]}, "spec.ports[0].name", "Required value"),
        ({"ports": [{"name": "a", "port": 1}, {"name": "a", "port": 2}]}, "spec.ports[1].name", 'Duplicate value: "a"'),
        ({"ports": [{"name": "a", "port": 1}, {"name": "b", "port": 1}]}, "spec.ports[1]", "Duplicate value"),
        ({"ports": [{"name": "A", "port": 1}]}, "spec.ports[0].name", "RFC 1123 label"),
        ({"type": "Bogus"}, "spec.type", 'Unsupported value: "Bogus": supported values: "ClusterIP", "ExternalName"'),
        ({"type": "ExternalName"}, "spec.externalName", "Required value"),
        ({"sessionAffinity": "Sticky"}, "spec.sessionAffinity", "Unsupported value"),
        ({"name": "1web"}, "metadata.name", "DNS-1035"),
        ({"name": "w" * 64}, "metadata.name", "63 characters"),
    ],
)
def test_services_that_the_api_server_rejects(spec: dict[str, Any], path: str, text: str) -> None:
    (problem,) = found(**spec)
    assert problem.startswith(f"{path}: ")
    assert text in problem
