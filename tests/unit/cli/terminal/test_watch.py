"""The list of `ps -w` in a terminal."""

from __future__ import annotations

import os

from support.golden import Wording
from tfjob.cli.terminal.watch import listed


def test_an_outage_is_said_below_the_list_that_was_seen_last(wording: Wording) -> None:
    shown = listed(["NAME"], [["one"], ["two"], ["three"]], "no answer; retrying", os.terminal_size((12, 4)))
    texts = [line.text for line in shown]
    assert (len(texts), texts[0], texts[2]) == (4, "NAME", "three")
    wording(*texts)
