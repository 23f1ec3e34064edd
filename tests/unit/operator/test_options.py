"""Where an operator listens unless it is told: on somebody's machine to that machine alone, in a pod to all."""

from __future__ import annotations

import pytest

from tfjob.cli.commands.operator import run
from tfjob.cli.main import cli
from tfjob.operator.options import Address

pytestmark = pytest.mark.faults

ROOT = cli.make_context("tfjob", [], resilient_parsing=True)
"""Whose settings a command takes over; it keeps them for good."""


@pytest.mark.parametrize(("inside", "host"), [("", "127.0.0.1"), ("10.0.0.1", "")])
def test_metrics_and_probes_are_local_outside_of_a_pod(monkeypatch: pytest.MonkeyPatch, inside: str, host: str) -> None:
    """There the kubelet and Prometheus come from other machines; the webhook is on only if it is asked for."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", inside)
    given = run.make_context("run", [], parent=ROOT).params
    assert given["metrics_bind_address"] == Address(host, 8080)
    assert given["health_probe_bind_address"] == Address(host, 8081)
    assert given["webhook_bind_address"].port == 0


def test_an_address_that_is_given_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    given = run.make_context("run", ["--metrics-bind-address=:9000"], parent=ROOT).params
    assert given["metrics_bind_address"] == Address("", 9000)
