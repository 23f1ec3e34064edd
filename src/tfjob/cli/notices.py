"""Log records of a running command as lines for its user, each text once."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TextIO


class Troubles(logging.Handler):
    """A log handler that reports each warning once, and each cause of a retry, which several watches may share."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._say = say
        self._said: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        # The cause of a retry is the exception of a record, or one among its arguments.
        causes = [*(record.exc_info or ()), *(record.args or ())]
        error = next((one for one in causes if isinstance(one, Exception)), None)
        text = f"{error}; retrying" if error else record.getMessage()
        if text not in self._said:
            self._said.add(text)
            self._say(text)


def show_troubles(say: Callable[[str], None], file: Path | None = None) -> None:
    """Pass the warnings of this process to `say`, and write its whole log to `file` if given."""
    logger = logging.getLogger("tfjob")
    logger.handlers[:] = [Troubles(say), *(one for one in logger.handlers if isinstance(one, _Everything))]
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
