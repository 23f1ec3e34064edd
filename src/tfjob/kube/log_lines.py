"""The log of a container as an API server sends it, with times: bytes in, readable lines out."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from tfjob.controller.console import Line
from tfjob.controller.log_text import LONGEST, character_start, readable, visible

DIGITS = 9
Moment = bytes
"""A time as the kubelet wrote it, with all its digits, so that it can be compared: it is finer than a datetime."""


class LogLines:
    """The lines of one run of one container; what was read before a connection broke is not read twice."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.time: datetime | None = None
        """When the last line was written."""
        self._last: Moment = b""
        self._count = 0
        self._to_skip = 0
        self._again = False
        self._begun = b""

    def take(self, chunk: bytes) -> list[Line]:
        """The lines that a chunk ends."""
        *whole, self._begun = (self._begun + chunk).split(b"\n")
        return [line for encoded in whole for line in self._lines(encoded)]

    def end(self) -> list[Line]:
        """The line that has begun, at the end of the log."""
        encoded, self._begun = self._begun, b""
        return list(self._lines(encoded)) if encoded else []

    def reconnect(self) -> None:
        """The log will be read once more from the last line's time on."""
        self._begun, self._again, self._to_skip = b"", True, self._count

    def _lines(self, encoded: bytes) -> Iterator[Line]:
        stamp, _, text = encoded.partition(b" ")
        moment = _moment(stamp)
        if not moment:
            # Not a line of the log: the kubelet says in its midst that it cannot read on.
            yield Line(self.time or datetime.now(UTC), self.label, f"[{readable(encoded)}]", notice=True)
            return
        if self._again and self._is_known(moment):
            return
        self._again = False
        self._count = self._count + 1 if moment == self._last else 1
        if moment != self._last:
            self._last, self.time = moment, datetime.fromisoformat(stamp.decode())
        assert self.time is not None
        yield from pieces(self.time, self.label, text)

    def _is_known(self, moment: Moment) -> bool:
        if moment == self._last and self._to_skip:
            self._to_skip -= 1
            return True
        return moment < self._last


def pieces(time: datetime, label: str, text: bytes) -> Iterator[Line]:
    """A line as it may be shown; a long one in several."""
    if b"\r" in text:
        text = visible(text)
    while len(text) > LONGEST:
        cut = character_start(text, LONGEST)
        yield Line(time, label, readable(text[:cut]), more=True)
        text = text[cut:]
    yield Line(time, label, readable(text.rstrip(b"\r")))


def _moment(stamp: bytes) -> Moment:
    """A comparable form of RFC 3339 with any number of digits; empty for anything else."""
    if len(stamp) < 20 or stamp[10:11] != b"T":
        return b""
    if not stamp.endswith(b"Z"):
        # A node with another time zone: its own lines compare well among themselves.
        stamp = stamp[: stamp.rfind(b"+") if b"+" in stamp else stamp.rfind(b"-")] + b"Z"
    whole, _, fraction = stamp[:-1].partition(b".")
    return whole + b"." + fraction.ljust(DIGITS, b"0")
