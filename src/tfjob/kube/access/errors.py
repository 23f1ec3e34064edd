"""What can go wrong with an API server: an answer that says no, no answer, or no way to ask."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import msgspec

from tfjob.errors import UserError


class KubeError(UserError):
    """Anything that went wrong with an API server."""


class ConfigError(KubeError):
    """How to reach the API server, or as whom, is not known."""


class Unreachable(KubeError):
    """No answer at all; a write may or may not have happened."""

    is_transient = True


class Cause(msgspec.Struct, frozen=True, rename="camel"):
    """One reason of several, often about one field."""

    reason: str = ""
    message: str = ""
    field: str = ""


class Details(msgspec.Struct, frozen=True, rename="camel"):
    """What an answer is about."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: list[Cause] | None = None
    retry_after_seconds: int = 0


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """The object with which an API server says how a request went."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: Details | None = None


class ApiError(KubeError):
    """The API server answered no: its code, its reason in CamelCase, its sentence and its details.

    `retry_after` is the number of seconds that it asked to wait, 0 when it did not ask.
    """

    def __init__(
        self, code: int, reason: str = "", message: str = "", details: Details | None = None, retry_after: float = 0.0
    ) -> None:
        super().__init__(message or reason or f"the API server answered with HTTP status {code}")
        self.code = code
        self.is_transient = code >= 500 or code == 429
        self.reason = reason
        self.details = details or Details()
        self.retry_after = retry_after


class Unauthorized(ApiError):
    """401: the credentials are not valid."""

    advice = "The API server rejects your credentials. Log in again, or check the user of your kubeconfig's context."


class Forbidden(ApiError):
    """403: the user does not have the right."""

    advice = "To see your permissions, run `tfjob doctor --on k8s`."


class NotFound(ApiError):
    """404: there is no such object, or no such kind."""


class Conflict(ApiError):
    """409: the object changed since it was read, or is not the one that was meant."""


class AlreadyExists(ApiError):
    """409: an object of that name exists."""


class Gone(ApiError):
    """410: that version of a list is no longer available."""


class Invalid(ApiError):
    """422: the object breaks its schema, a rule or an admission policy."""


class TooManyRequests(ApiError):
    """429: the server asks to retry later."""


_BY_CODE: dict[int, type[ApiError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}
_status = msgspec.json.Decoder(Status)
TEXT_LIMIT = 500
"""Characters that are kept of an answer that is no Status, such as the page of a proxy."""


def api_error(code: int, body: bytes | msgspec.Raw, retry_after: str = "") -> ApiError:
    try:
        status = _status.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        status = Status(message=" ".join(bytes(body).decode(errors="replace").split())[:TEXT_LIMIT])
    kind = AlreadyExists if status.reason == "AlreadyExists" else _BY_CODE.get(code, ApiError)
    seconds = _seconds(retry_after)
    if not seconds and status.details:
        seconds = float(status.details.retry_after_seconds)
    if not seconds and kind is TooManyRequests:
        seconds = 1.0
    message = status.message or f"the API server answered with HTTP status {code}"
    return kind(code, status.reason, message, status.details, seconds)


def _seconds(retry_after: str) -> float:
    """Return the seconds to wait: an API server sends a number, a proxy in front of it perhaps a date."""
    if retry_after.isdecimal():
        return float(retry_after)
    try:
        return max(0.0, (parsedate_to_datetime(retry_after) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):  # no date, or one without a time zone
        return 0.0
