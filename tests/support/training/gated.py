"""Trainings that wait at a step of the test's choice, however fast the machine is."""

from __future__ import annotations

import shutil
from pathlib import Path

import yaml

from support.training.examples import EXAMPLES, shortened

WAITS = {
    "        loss, accuracy = train_step(iterator)\n": "        wait_together(strategy, int(step))\n",
    "        count = min(": "        wait_at_gate(lambda: step.numpy())\n",
    "        write_scalars(self.writer, epoch + 1, **logs)\n": "        wait_at_gate(lambda: epoch)\n",
}
"""The start of a step (the end of an epoch) in an example or a template, and what is put before it: for collectives,
with parameter servers, alone."""
MAIN = '\nif __name__ == "__main__":\n'
WAITING = '''
import functools
import time


def is_open(step):
    """Whether the test has let the training go beyond a step."""
    with open({limit!r}) as limit:
        return step < int(limit.read())


@functools.cache
def counting(strategy):
    @tf.function
    def count(value):
        return strategy.reduce("SUM", strategy.run(tf.identity, args=(value,)), axis=None)

    return count


def wait_together(strategy, step):
    """Ask all peers again and again, so that they leave at the same step and notice a peer that is gone."""
    while counting(strategy)(tf.constant(float(is_open(step)))) < strategy.num_replicas_in_sync:
        time.sleep(0.05)


def wait_at_gate(reached):
    """Ask for the step again and again: if the variable is on a ps, this notices when it is gone."""
    while not is_open(reached()):
        time.sleep(0.05)

'''


class Gate:
    """The step up to which a training may go; `program`, an example's or a template's, is changed to wait there."""

    def __init__(self, program: Path, first: int) -> None:
        self._limit = program.with_name("limit")
        self.let_train_to(first)
        text = program.read_text()
        (step,) = (step for step in WAITS if step in text)
        assert text.count(step) == text.count(MAIN) == 1, "the program has changed"
        waiting = WAITING.format(limit=str(self._limit))
        program.write_text(text.replace(step, WAITS[step] + step).replace(MAIN, waiting + MAIN))

    def let_train_to(self, step: int) -> None:
        """Let the training continue up to a later step."""
        new = self._limit.with_suffix(".new")
        new.write_text(f"{step}")
        new.rename(self._limit)


def gated_copy(name: str, folder: Path, first: int) -> tuple[Path, Gate]:
    """Copy an example, and the data that it finds next to it, into `folder`; return the copy and its gate."""
    for one in {"mnist", name}:
        shutil.copytree(EXAMPLES / one, folder / one, ignore=shutil.ignore_patterns("__pycache__"))
    return folder / name, Gate(folder / name / "train.py", first)


def gated_example(name: str, folder: Path, steps: int, first: int) -> tuple[str, Gate]:
    """Write a manifest for a gated copy of an example, with fewer steps and more checkpoints; return its path."""
    copy, gate = gated_copy(name, folder, first)
    manifest = copy / "job.yaml"
    manifest.write_text(yaml.safe_dump_all(shortened(name, steps)))
    return str(manifest), gate
