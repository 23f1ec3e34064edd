"""The lines of containers: raw output as text that is safe to show in a terminal, and the label of each container."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

RESET = "\x1b[0m"
LONGEST = 64 * 1024
"""Bytes of text in one Line; a longer line comes in several, all but the last with `more`."""
_CONTROL = re.compile(
    r"(?P<colour>\x1b\[[0-9;:]*m)"
    r"|\x1b\[[0-?]*[ -/]*[@-~]"  # moves of the cursor, erasures
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|$)"  # titles, links and other strings for the terminal
    r"|\x1b[ -/]*[0-~]?"
    r"|[\x00-\x08\x0a-\x1f\x7f-\x9f]"
)


def visible(line: bytes) -> bytes:
    """What a redrawn line shows last: the part after its last carriage return, one at its very end kept.

    The one at the end is kept so that more of the line can be appended and the rule applied again.
    """
    body = line.rstrip(b"\r")
    shown = body[body.rfind(b"\r") + 1 :]
    return shown + b"\r" if len(body) < len(line) else shown


def readable(line: bytes) -> str:
    """The line as text: bytes that are no UTF-8 replaced, colours kept and ended, every other control removed."""
    text = line.decode("utf-8", "replace")
    if text.isprintable():
        return text
    text = _CONTROL.sub(lambda match: match["colour"] or "", text)
    last = text.rfind("\x1b[")
    if last >= 0 and not text.startswith(("\x1b[m", RESET), last):
        text += RESET
    return text


def character_start(text: bytes, at: int) -> int:
    """The nearest place up to `at` that does not cut a UTF-8 character."""
    for back in range(4):
        if text[at - back] & 0xC0 != 0x80:
            return at - back
    return at


def container_labels(replica: str, pod_spec: Mapping[str, Any]) -> dict[str, str]:
    """What the lines of each container are called: like the replica when it is the only one but for init containers."""
    first = [container["name"] for container in pod_spec.get("initContainers") or []]
    main = [container["name"] for container in pod_spec.get("containers") or []]
    alone = len(main) == 1
    return {name: f"{replica}/{name}" for name in first} | {
        name: replica if alone else f"{replica}/{name}" for name in main
    }
