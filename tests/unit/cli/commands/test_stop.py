"""Jobs that are suspended, resumed and scaled: the words of `tfjob scale`."""

from __future__ import annotations

import pytest

from support.command_line import MANIFESTS
from tfjob.api.manifest import loader as manifests
from tfjob.cli import exit_codes
from tfjob.cli.commands.stop import scaled


@pytest.mark.parametrize(
    ("word", "message", "hint"),
    [
        ("woker=2", "woker=2: the job has no replica type woker", "Did you mean worker? The job has chief, worker."),
        ("boss=2", "boss=2: the job has no replica type boss", "The job has chief, worker."),
        ("worker=-1", "worker=-1: -1 is no number of replicas", "Write a whole number, 0 or more."),
        ("worker=", "worker=: it says no number of replicas", "Write chief=N, worker=N."),
        ("worker", "worker: it says no number of replicas", "Write chief=N, worker=N."),
    ],
)
def test_scaling_says_what_is_wrong_with_a_word(word: str, message: str, hint: str) -> None:
    job = manifests.load((MANIFESTS / "hello.yaml").read_bytes()).jobs[0]
    with pytest.raises(exit_codes.Stop) as stopped:
        scaled(job, (word,))
    assert (stopped.value.message, stopped.value.hint) == (message, hint)
