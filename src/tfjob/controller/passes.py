"""Which pass is at work, so that whatever is logged within it can name its job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import count

from tfjob.controller.cluster import Key

_numbers = count(1)


@dataclass(frozen=True)
class Pass:
    """One look at one job; the number is unique within the process."""

    key: Key
    id: int


_current: ContextVar[Pass | None] = ContextVar("pass", default=None)


def current_pass() -> Pass | None:
    """The pass that this task works on, if any."""
    return _current.get()


@contextmanager
def a_pass(key: Key) -> Iterator[None]:
    """Marks the time of one pass."""
    token = _current.set(Pass(key, next(_numbers)))
    try:
        yield
    finally:
        _current.reset(token)
