"""Replace secrets in objects and log lines. Pure.

Secrets are recognized by name (a variable DB_PASSWORD), by shape (an access token, a password in a URL) and by place
(the content of a Secret). Everything else stays, so that a bug report remains useful.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tfjob.api.objects import LAST_APPLIED

HIDDEN = "(redacted)"

_NAME = re.compile(
    r"passw|secret|token|credential|api_?key|access_?key|private_?key|auth|bearer|session|cookie", re.IGNORECASE
)
_HARMLESS = re.compile(r"(Name|Ref|Path|Seconds|Mount)$|^(automountServiceAccountToken|secret|serviceAccountToken)$")
"""Fields of the Kubernetes API that refer to a secret but do not contain it."""
_LEFT_OUT = ("managedFields", LAST_APPLIED)
"""Long, and redundant; the second one is a whole object as a string."""
_SHAPES = (
    re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"),
    re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    re.compile(r"\bgh[pousr]_[A-Za-z0-9]{20,}\b"),
    re.compile(r"\bxox[abprs]-[A-Za-z0-9-]{10,}\b"),
    re.compile(r"\b(?:sk|hf|glpat)[-_][A-Za-z0-9_-]{16,}\b"),
    re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?"),
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)", re.DOTALL),
)
_ASSIGNED = re.compile(
    r"(?P<name>[\w.-]*(?:passw(?:or)?d|secret|token|credential|api[_-]?key|access[_-]?key)[\w.-]*"
    r"[\"']?\s*[=:]\s*(?:bearer\s+)?[\"']?|--(?:password|token|secret|api-key)\s+|authorization:\s*\w+\s+)(?P<value>[^\s\"',;}]+)",
    re.IGNORECASE,
)


def text(line: str) -> str:
    for shape in _SHAPES:
        line = shape.sub(HIDDEN, line)
    return _ASSIGNED.sub(lambda match: match["name"] + HIDDEN, line)


def document(value: Any, name: str = "") -> Any:
    if isinstance(value, Mapping):
        if value.get("kind") == "Secret":
            secret = ("data", "stringData")
            return {key: dict.fromkeys(one or {}, HIDDEN) if key in secret else one for key, one in value.items()}
        if "name" in value and "value" in value:
            return _variable(value)
        return {key: document(one, str(key)) for key, one in value.items() if key not in _LEFT_OUT}
    if isinstance(value, list | tuple):
        return [document(one, name) for one in value]
    if isinstance(value, str):
        is_secret = bool(_NAME.search(name)) and not _HARMLESS.search(name)
        return HIDDEN if value and is_secret else text(value)
    return value


def _variable(variable: Mapping[str, Any]) -> dict[str, Any]:
    hidden = HIDDEN if variable["value"] and _NAME.search(str(variable["name"])) else document(variable["value"])
    return {**variable, "value": hidden}
