"""Secrets are redacted by name, shape and place."""

from __future__ import annotations

import pytest

from tfjob.jobs import redaction
from tfjob.jobs.redaction import HIDDEN


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"env": [{"name": "AWS_SECRET_ACCESS_KEY", "value": "abc"}]}, False),
        ({"environ": {"HF_TOKEN": "abc"}}, False),
        ({"args": ["--password=abc"]}, False),
        ({"args": ["--token abc"]}, False),
        ({"message": "Authorization: Bearer abc"}, False),
        ({"kind": "Secret", "data": {"key": "abc"}}, False),
        ({"note": "postgres://me:abc@db/x"}, False),
        ({"secretName": "abc"}, True),
        ({"secretKeyRef": {"name": "abc", "key": "abc"}}, True),
        ({"serviceAccountName": "abc"}, True),
        ({"volumes": [{"secret": {"secretName": "abc"}}]}, True),
        ({"env": [{"name": "STEPS", "value": "abc"}]}, True),
        ({"message": "the author wrote abc"}, True),
    ],
)
def test_secrets_go_by_name_shape_and_place_and_the_rest_stays(given: dict[str, object], kept: bool) -> None:
    shown = str(redaction.document(given))
    assert ("abc" in shown) is kept
    assert (HIDDEN in shown) is not kept


@pytest.mark.parametrize(
    "line",
    [
        "key AKIAABCDEFGHIJKLMNOP used",
        "pushing with ghp_abcdefghijklmnopqrstuvwx",
        "jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc",
        'config {"api_key": "abcdef"}',
        "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_tokens_are_known_by_their_shape(line: str) -> None:
    assert HIDDEN in redaction.text(line)


def test_a_line_without_secrets_stays_as_it_is() -> None:
    line = "step 100: loss 0.31, accuracy 0.92, 12 tokens/s at https://example.com:8080/path"
    assert redaction.text(line) == line
