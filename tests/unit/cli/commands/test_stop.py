"""The arguments of `tfjob scale`."""

from __future__ import annotations

import pytest

from support.command_line import MANIFESTS
from support.golden import Wording
from tfjob.api.manifest import loader as manifests
from tfjob.cli.commands.stop import parse_counts
from tfjob.errors import InvalidRequest
from tfjob.jobs.scale import names_of


@pytest.mark.parametrize(
    ("word", "keyword"),
    [
        ("worker=-1", "0"),
        ("worker=", "worker=N"),
        ("worker", "worker=N"),
        ("4", "worker=4"),
    ],
)
def test_scaling_says_what_is_wrong_with_a_word(word: str, keyword: str, wording: Wording) -> None:
    job = manifests.load((MANIFESTS / "hello.yaml").read_bytes()).jobs[0]
    with pytest.raises(InvalidRequest) as stopped:
        parse_counts((word,), names_of(job))
    assert word in stopped.value.message
    assert keyword in stopped.value.hint
    wording(stopped.value.message, stopped.value.hint)
