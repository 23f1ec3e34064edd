"""The printed form of a manifest."""

from __future__ import annotations

from tfjob.api.objects import LAST_APPLIED
from tfjob.launch.request import hidden_secret


def test_a_secret_is_shown_with_its_keys_and_without_what_they_hold() -> None:
    """Also in the annotation of `kubectl apply`."""
    noted = '{"kind":"Secret","stringData":{"password":"open sesame"}}'
    secret = {
        "kind": "Secret",
        "metadata": {"name": "login", "annotations": {LAST_APPLIED: noted, "team": "vision"}},
        "data": {"token": "b3BlbiBzZXNhbWU="},
        "stringData": {"password": "open sesame"},
    }

    shown = hidden_secret(secret)

    assert shown["metadata"] == {"name": "login", "annotations": {LAST_APPLIED: "(secret)", "team": "vision"}}
    assert (shown["data"], shown["stringData"]) == ({"token": "(secret)"}, {"password": "(secret)"})
