"""Errors of an API server: it rejects a request, does not answer, or cannot be found."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import msgspec

from tfjob.errors import UserError


class KubeError(UserError):
    """Any error in the communication with an API server."""


class ConfigError(KubeError):
    """The configuration does not say how to reach the API server, or as which user."""


class Unreachable(KubeError):
    """The API server did not answer; a write may or may not have happened."""

    is_transient = True
    advice = (
        "To check whether the cluster is running: kubectl cluster-info. To use another context of your kubeconfig: "
        "--on k8s:CONTEXT (operator commands: --context CONTEXT)."
    )


class Cause(msgspec.Struct, frozen=True, rename="camel"):
    """One of several reasons, often about one field."""

    reason: str = ""
    message: str = ""
    field: str = ""


class Details(msgspec.Struct, frozen=True, rename="camel"):
    """The object that a response is about."""

    name: str = ""
    kind: str = ""
    causes: list[Cause] | None = None
    retry_after_seconds: int = 0


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """The object in which an API server reports the result of a request."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: Details | None = None


class ApiError(KubeError):
    """The API server rejected a request; `retry_after` is how many seconds it asks to wait, else 0."""

    def __init__(
        self, code: int, reason: str = "", message: str = "", details: Details | None = None, retry_after: float = 0.0
    ) -> None:
        super().__init__(message or f"the API server answered with HTTP status {code}")
        self.code = code
        self.is_transient = code >= 500 or code == 429
        self.reason = reason
        self.details = details or Details()
        self.retry_after = retry_after


class Unauthorized(ApiError):
    """401: the credentials are not valid."""

    advice = "The API server rejects your credentials. Log in again, or check the user of your kubeconfig's context."


class Forbidden(ApiError):
    """403: the user lacks the permission."""

    advice = "To see your permissions, run `tfjob doctor --on k8s`."


class NotFound(ApiError):
    """404: the object or its kind does not exist."""


class Conflict(ApiError):
    """409: the object has changed since it was read, or another object has its name."""


class AlreadyExists(ApiError):
    """409: an object with this name exists."""


class Gone(ApiError):
    """410: this version of a list is no longer available."""


class Invalid(ApiError):
    """422: the object violates its schema, a rule or an admission policy."""


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
"""How many characters of a response that is not a Status, such as a proxy's error page, an error keeps."""


def api_error(code: int, body: bytes | msgspec.Raw, retry_after: str = "") -> ApiError:
    """Return the error of a response; `code` 0 means that the Status in its body has the code."""
    try:
        status = _status.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        status = Status(message=" ".join(bytes(body).decode(errors="replace").split())[:TEXT_LIMIT])
    code = code or status.code or 500
    kind = AlreadyExists if status.reason == "AlreadyExists" else _BY_CODE.get(code, ApiError)
    seconds = _seconds(retry_after)
    if not seconds and status.details:
        seconds = float(status.details.retry_after_seconds)
    if not seconds and kind is TooManyRequests:
        seconds = 1.0
    return kind(code, status.reason, status.message, status.details, seconds)


def _seconds(retry_after: str) -> float:
    """Return the seconds to wait: API servers send a number, a proxy may send a date."""
    if retry_after.isdecimal():
        return float(retry_after)
    try:
        return max(0.0, (parsedate_to_datetime(retry_after) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):  # not a date, or one without a time zone
        return 0.0
