"""What to say when a cluster does not answer while a command follows something: that it is so, once, and no more."""

from __future__ import annotations

import logging
from collections.abc import Callable


class Outages(logging.Handler):
    """Tells each trouble of the machinery below once; how long it waits before it tries again concerns nobody."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._say = say
        self._told: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """One line for a person; three watches that break together have one cause."""
        error = record.exc_info[1] if record.exc_info else None
        causes = [arg for arg in record.args or () if isinstance(arg, str) and arg.startswith(" (")]
        text = causes[0].strip(" ()") if causes else str(error or record.getMessage())
        if text not in self._told:
            self._told.add(text)
            self._say(f"{text}; trying again")


def show(say: Callable[[str], None]) -> None:
    """Sends what goes wrong to `say` from now on, and nowhere else."""
    logger = logging.getLogger("tfjob")
    logger.handlers[:] = [Outages(say)]
    logger.propagate = False
