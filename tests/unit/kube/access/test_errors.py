from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import msgspec
import pytest

from support.golden import Wording
from tfjob.kube.access import errors
from tfjob.kube.access.errors import ApiError, api_error


def status(reason: str, **details: object) -> bytes:
    return msgspec.json.encode({"kind": "Status", "reason": reason, "message": f"it is {reason}", "details": details})


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (401, "Unauthorized", errors.Unauthorized),
        (403, "Forbidden", errors.Forbidden),
        (404, "NotFound", errors.NotFound),
        (409, "Conflict", errors.Conflict),
        (409, "AlreadyExists", errors.AlreadyExists),
        (410, "Expired", errors.Gone),
        (410, "Gone", errors.Gone),
        (422, "Invalid", errors.Invalid),
        (429, "TooManyRequests", errors.TooManyRequests),
        (500, "InternalError", ApiError),
        (503, "ServiceUnavailable", ApiError),
    ],
)
def test_an_answer_becomes_the_error_it_means(code: int, reason: str, kind: type[ApiError]) -> None:
    error = api_error(code, status(reason))
    assert type(error) is kind
    assert (error.code, error.reason, error.message) == (code, reason, f"it is {reason}")


def test_details_and_causes_are_kept() -> None:
    causes = [{"reason": "FieldValueRequired", "message": "Required value", "field": "spec.containers"}]
    error = api_error(422, status("Invalid", name="a", kind="Pod", causes=causes))
    assert error.details.name == "a"
    assert error.details.causes == [errors.Cause("FieldValueRequired", "Required value", "spec.containers")]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "502"),
        (b"<html>\n<h1>Bad\n Gateway</h1>", "<html> <h1>Bad Gateway</h1>"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"[]", "[]"),
        (b'{"message": 5}', '{"message": 5}'),
    ],
)
def test_an_answer_that_is_not_a_status_is_shown_unchanged(body: bytes, message: str, wording: Wording) -> None:
    found = api_error(502, body).message
    assert message in found
    assert body == b"" or found == message
    wording(found)


def test_a_long_answer_that_is_not_a_status_is_cut() -> None:
    assert len(api_error(502, b"x" * 100_000).message) == errors.TEXT_LIMIT


@pytest.mark.parametrize(
    ("header", "details", "seconds"),
    [("2", {}, 2.0), ("", {"retryAfterSeconds": 3}, 3.0), ("", {}, 1.0), ("Fri, 31 Dec 1999 23:59:59 GMT", {}, 1.0)],
)
def test_the_time_to_wait_comes_from_the_header_or_the_details(
    header: str, details: dict[str, object], seconds: float
) -> None:
    assert api_error(429, status("TooManyRequests", **details), header).retry_after == seconds


def test_a_proxy_may_send_a_date_to_wait_for() -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=20), usegmt=True)
    assert 15 < api_error(503, b"", soon).retry_after <= 20
    assert api_error(503, b"", "soon").retry_after == 0
