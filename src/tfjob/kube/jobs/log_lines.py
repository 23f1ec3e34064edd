"""The log of a container as an API server sends it, with times: bytes in, readable lines out."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from tfjob.jobs.backend import Line
from tfjob.jobs.logs import LONGEST, character_start, readable, visible

OVERLAP = timedelta(seconds=2)
"""How far the lines of a log may be out of order: its two streams are written by different hands."""
Moment = bytes
"""A time as the kubelet wrote it, with all its digits: it is finer than a datetime."""


class LogLines:
    """The lines of one run of one container; what was read before a connection broke is not read twice.

    `is_tail` says that only the last lines are asked for: what is older than the first of them was left out, and stays
    out when the log is read once more.
    """

    def __init__(self, label: str, *, is_tail: bool = False) -> None:
        self.label = label
        self._is_tail = is_tail
        self._first: datetime | None = None
        self.time: datetime | None = None
        """When the latest line was written."""
        self._recent: deque[tuple[datetime, Moment]] = deque()
        self._known: Counter[Moment] = Counter()
        self._begun = b""

    @property
    def since(self) -> datetime | None:
        """From when on the log must be read again to miss nothing; None for from its beginning."""
        return self.time - OVERLAP if self.time else None

    def take(self, chunk: bytes) -> list[Line]:
        """The lines that a chunk ends."""
        *whole, self._begun = (self._begun + chunk).split(b"\n")
        return [line for encoded in whole for line in self._lines(encoded)]

    def end(self) -> list[Line]:
        """The line that has begun, at the end of the log."""
        encoded, self._begun = self._begun, b""
        return list(self._lines(encoded)) if encoded else []

    def reconnect(self) -> None:
        """The log will be read once more, from `since` on."""
        self._begun = b""
        self._known = Counter(moment for _, moment in self._recent)

    def _lines(self, encoded: bytes) -> Iterator[Line]:
        stamp, _, text = encoded.partition(b" ")
        time = _time(stamp)
        if time is None:
            # Not a line of the log: the kubelet says in its midst that it cannot read on.
            yield Line(self.time or datetime.now(UTC), self.label, f"[{readable(encoded)}]", notice=True)
            return
        if self._known[stamp] > 0:
            self._known[stamp] -= 1
            return
        if self._first is None:
            self._first = time
        elif self._is_tail and time < self._first:
            return
        self._remember(time, stamp)
        yield from pieces(time, self.label, text)

    def _remember(self, time: datetime, moment: Moment) -> None:
        if self.time is None or time > self.time:
            self.time = time
            # A second more: the log can be asked for from a whole second on only.
            while self._recent and self._recent[0][0] < time - OVERLAP - timedelta(seconds=1):
                self._recent.popleft()
        self._recent.append((time, moment))


def pieces(time: datetime, label: str, text: bytes) -> Iterator[Line]:
    """A line as it may be shown; a long one in several."""
    if b"\r" in text:
        text = visible(text)
    while len(text) > LONGEST:
        cut = character_start(text, LONGEST)
        yield Line(time, label, readable(text[:cut]), more=True)
        text = text[cut:]
    yield Line(time, label, readable(text.rstrip(b"\r")))


def _time(stamp: bytes) -> datetime | None:
    try:
        return datetime.fromisoformat(stamp.decode("ascii")) if len(stamp) >= 20 else None
    except ValueError:
        return None
