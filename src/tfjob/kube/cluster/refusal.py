"""Why an API server would not take an object, in the plan's words: hopeless, doubtful, or a matter of time."""

from __future__ import annotations

import re

from tfjob.controller.cluster import Refused
from tfjob.kube.access.errors import ApiError, Forbidden, Invalid, NotFound

INVALID, DENIED = "Invalid", "Denied"
QUOTA, TERMINATING, NOT_ALLOWED, NO_NAMESPACE = (
    "QuotaExceeded",
    "NamespaceTerminating",
    "Forbidden",
    "NamespaceNotFound",
)
BAD_REQUEST, TOO_LARGE = 400, 413


def refused(error: ApiError) -> Refused | None:
    """The refusal that an answer means; None for an answer that has nothing to do with the child."""
    reason = _reason(error)
    return Refused(reason, error.message) if reason else None


def _reason(error: ApiError) -> str:
    if isinstance(error, Invalid) or error.code == TOO_LARGE:
        return INVALID
    if isinstance(error, NotFound):
        return NO_NAMESPACE
    if "denied the request" in error.message:
        # An admission webhook may choose any code for its no.
        return DENIED
    if isinstance(error, Forbidden):
        return _reason_of_forbidden(error)
    return INVALID if error.code == BAD_REQUEST else ""


def _reason_of_forbidden(error: Forbidden) -> str:
    causes = [cause.reason for cause in error.details.causes or ()]
    if TERMINATING in causes:
        return TERMINATING
    if "exceeded quota" in error.message:
        return QUOTA
    if re.search(r" cannot (create|update|patch) resource ", error.message):
        # The operator's own rights: they may be repaired while the job waits.
        return NOT_ALLOWED
    return DENIED
