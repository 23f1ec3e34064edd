"""The notices while a cluster does not answer."""

from __future__ import annotations

import logging

import pytest

from support.golden import Wording
from tfjob.cli.notices import Troubles


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def logger(said: list[str]) -> logging.Logger:
    made = logging.Logger("test")
    made.addHandler(Troubles(said.append))
    return made


def test_a_cause_is_reported_once_however_many_watches_break(
    logger: logging.Logger, said: list[str], wording: Wording
) -> None:
    for plural in ("pods", "tfjobs", "events"):
        for seconds in (1.2, 2.5):
            cause = ConnectionError("cannot reach the API server: connection refused")
            logger.warning("the watch of %s ended: %s; retrying in %.1f s", plural, cause, seconds)
    logger.info("the watch of %s ended: %s; retrying in %.1f s", "pods", "closed", 1.0)
    logger.warning("something else")
    assert len(said) == 2
    assert "connection refused" in said[0]
    assert "something else" in said[1]
    wording(*said)


def test_a_cause_keeps_its_parentheses(logger: logging.Logger, said: list[str]) -> None:
    logger.warning("the watch of %s ended: %s", "pods", ConnectionError("(internal) refused (111)"))
    assert said[0].startswith("(internal) refused (111);")


def test_the_exception_of_a_record_is_its_cause(logger: logging.Logger, said: list[str]) -> None:
    try:
        raise OSError("the disk is full")
    except OSError:
        logger.exception("a pass over %s failed; retrying in %.3f s", "mnist", 0.2)
    assert said[0].startswith("the disk is full;")
