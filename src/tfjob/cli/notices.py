"""Log records of a running command as lines for its user, each text once."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TextIO


class Troubles(logging.Handler):
    """A log handler that reports each warning once."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._say = say
        self._told: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        text = self.words(record)
        if text not in self._told:
            self._told.add(text)
            self._say(text)

    def words(self, record: logging.LogRecord) -> str:
        error = record.exc_info[1] if record.exc_info else None
        return f"{error}; retrying" if error else record.getMessage()


class Outages(Troubles):
    """Reports a cluster outage once, without the retry delay."""

    def words(self, record: logging.LogRecord) -> str:
        """Return the cause, which several broken watches share."""
        error = record.exc_info[1] if record.exc_info else None
        causes = [arg for arg in record.args or () if isinstance(arg, str) and arg.startswith(" (")]
        return f"{causes[0].strip(' ()') if causes else error or record.getMessage()}; retrying"


def show_troubles(troubles: Troubles, file: Path | None = None) -> None:
    """Send warnings of this process to `troubles`, and its whole log to `file` if given."""
    logger = logging.getLogger("tfjob")
    logger.handlers[:] = [troubles, *(one for one in logger.handlers if isinstance(one, _Everything))]
    logger.propagate = False
    if file is not None:
        logging.raiseExceptions = False  # a full disk must not print tracebacks
        logger.addHandler(logging.FileHandler(file, delay=True))


class _Everything(logging.StreamHandler[TextIO]):
    """The debug log on stderr; `Troubles` reports warnings."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(asctime)s.%(msecs)03d %(name)s: %(message)s", "%H:%M:%S"))
        self.addFilter(lambda record: record.levelno < logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr  # a live view replaces it
        super().emit(record)


def show_everything() -> None:
    """Print the debug log of this process on stderr, and internal errors with their tracebacks."""
    os.environ.setdefault("TFJOB_DEBUG", "1")
    logger = logging.getLogger("tfjob")
    logger.setLevel(logging.DEBUG)
    logger.addHandler(_Everything())
