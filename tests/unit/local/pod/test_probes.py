"""What a supervisor gets to know of a container's probes."""

from __future__ import annotations

from typing import Any

import pytest

from tfjob.local.pod import probes

PORTS = [{"name": "web", "containerPort": 8080}, {"name": "tfjob-port", "containerPort": 2222}]


def resolved(kind: str = "livenessProbe", ports: dict[int, int] | None = None, **probe: Any) -> Any:
    container = {"name": "c", "ports": PORTS, "env": [{"name": "A", "value": "a"}], kind: probe}
    found = probes.resolve(container, address="127.77.0.1", ports=ports or {}, text=lambda word: word.upper())
    return next(iter(found.values()), None)


def test_the_defaults_are_the_kubelets() -> None:
    found = resolved(tcpSocket={"port": 80})
    assert found == {
        "initialDelay": 0,
        "period": 10,
        "timeout": 1,
        "successThreshold": 1,
        "failureThreshold": 3,
        "grace": None,
        "tcp": {"host": "127.77.0.1", "port": 80},
    }


def test_what_a_probe_says_replaces_the_defaults() -> None:
    found = resolved(
        tcpSocket={"port": 80},
        initialDelaySeconds=1,
        periodSeconds=2,
        timeoutSeconds=3,
        successThreshold=4,
        failureThreshold=5,
        terminationGracePeriodSeconds=6,
    )
    keys = ("initialDelay", "period", "timeout", "successThreshold", "failureThreshold", "grace")
    assert [found[key] for key in keys] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("target", "host", "port"),
    [
        ({"port": 80}, "127.77.0.1", 80),
        ({"port": "web"}, "127.77.0.1", 8080),
        ({"port": "80"}, "127.77.0.1", 80),
        ({"port": 2222}, "127.77.0.1", 40001),
        ({"port": "tfjob-port"}, "127.77.0.1", 40001),
        ({"port": 2222, "host": "127.0.0.1"}, "127.0.0.1", 2222),
        ({"port": 2222, "host": "localhost"}, "127.0.0.1", 2222),
    ],
)
def test_a_probe_uses_the_address_and_port_of_its_pod(target: dict[str, Any], host: str, port: int) -> None:
    assert resolved(tcpSocket=target, ports={2222: 40001})["tcp"] == {"host": host, "port": port}
    http = resolved(httpGet=target, ports={2222: 40001})["http"]
    assert (http["host"], http["port"]) == (host, port)


@pytest.mark.parametrize(
    ("get", "expected"),
    [
        ({}, {"tls": False, "path": "/", "headers": []}),
        ({"path": "healthz"}, {"tls": False, "path": "/healthz", "headers": []}),
        ({"path": "/a b?c=%20"}, {"tls": False, "path": "/a%20b?c=%20", "headers": []}),
        ({"scheme": "HTTPS", "path": "/"}, {"tls": True, "path": "/", "headers": []}),
        (
            {"httpHeaders": [{"name": "X", "value": "1"}, {"name": "Y"}]},
            {"tls": False, "path": "/", "headers": [("X", "1"), ("Y", "")]},
        ),
    ],
)
def test_a_request_is_the_one_of_the_manifest(get: dict[str, Any], expected: dict[str, Any]) -> None:
    assert resolved(httpGet={"port": 80, **get})["http"] == {"host": "127.77.0.1", "port": 80, **expected}


def test_a_command_is_expanded_and_rewritten_for_this_machine() -> None:
    assert resolved(exec={"command": ["cat", "$(A)", "$(B)"]})["exec"] == ["CAT", "A", "$(B)"]


@pytest.mark.parametrize(
    "probe",
    [
        {"grpc": {"port": 80}},
        {"exec": {}},
        {"httpGet": {"port": "no-such"}},
        {"tcpSocket": {"port": 70000}},
        {"tcpSocket": {"port": 80, "host": "example.com"}},
        {"tcpSocket": {"port": 80, "host": "::1"}},
    ],
)
def test_a_probe_that_cannot_run_here_is_left_out_with_a_reason(probe: dict[str, Any]) -> None:
    assert resolved(**probe) is None
    (found,) = probes.problems({"name": "c", "ports": PORTS, "livenessProbe": probe})
    assert found[0] == "livenessProbe"
    assert found[1]
