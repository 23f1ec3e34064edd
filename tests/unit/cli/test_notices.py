"""The notices while a cluster does not answer."""

from __future__ import annotations

import logging

from support.golden import Wording
from tfjob.cli.notices import Outages


def test_one_cause_is_told_once_however_many_watches_break_and_however_often(wording: Wording) -> None:
    said: list[str] = []
    logger = logging.Logger("test")
    logger.addHandler(Outages(said.append))
    for plural in ("pods", "tfjobs", "events"):
        for seconds in (1.2, 2.5):
            cause = " (cannot reach the API server: connection refused)"
            logger.warning("the watch of %s ended: %s%s; retrying in %.1f s", plural, "unreachable", cause, seconds)
    logger.info("the watch of %s ended: %s%s; retrying in %.1f s", "pods", "closed", "", 1.0)
    logger.warning("something else")
    assert len(said) == 2
    assert "connection refused" in said[0]
    assert "something else" in said[1]
    wording(*said)
