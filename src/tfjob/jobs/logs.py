"""Log lines: raw output as text that is safe to print in a terminal, and the labels of containers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tfjob.api.objects import SENT_FILES

RESET = "\x1b[0m"
LONGEST = 64 * 1024
"""Most bytes of text in one Line; a longer line is split, and all parts but the last have `more`."""
_CONTROL = re.compile(
    r"(?P<colour>\x1b\[[0-9;:]*m)"
    r"|\x1b\[[0-?]*[ -/]*[@-~]"  # cursor movements, erasures
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|$)"  # titles, links and other string sequences
    r"|\x1b[ -/]*[0-~]?"
    r"|[\x00-\x08\x0a-\x1f\x7f-\x9f]"
)


def visible(line: bytes) -> bytes:
    """Return the last state of a redrawn line: the part after its last carriage return.

    A carriage return at the very end is kept, so that the rule can be applied again when more of the line arrives.
    """
    body = line.rstrip(b"\r")
    shown = body[body.rfind(b"\r") + 1 :]
    return shown + b"\r" if len(body) < len(line) else shown


def readable(line: bytes) -> str:
    """Return a line as text: with colors, reset at the end, but without other control sequences or invalid UTF-8."""
    text = line.decode("utf-8", "replace")
    if text.isprintable():
        return text
    text = _CONTROL.sub(lambda match: match["colour"] or "", text)
    last = text.rfind("\x1b[")
    if last >= 0 and not text.startswith(("\x1b[m", RESET), last):
        text += RESET
    return text


def character_start(text: bytes, at: int) -> int:
    """Return the last position up to `at` that does not split a UTF-8 character."""
    for back in range(4):
        if text[at - back] & 0xC0 != 0x80:
            return at - back
    return at


def container_labels(replica: str, pod_spec: Mapping[str, Any]) -> dict[str, str]:
    """Return the label of each container: the replica's name for its only container, else `replica/container`."""
    first = [container["name"] for container in pod_spec.get("initContainers") or []]
    main = [container["name"] for container in pod_spec.get("containers") or []]
    alone = len(main) == 1
    return {name: f"{replica}/{name}" for name in first} | {
        name: replica if alone else f"{replica}/{name}" for name in main
    }


def is_expected(label: str) -> bool:
    """Return whether a container usually prints lines; the one that unpacks sent files prints only errors."""
    return not label.endswith(f"/{SENT_FILES}")
