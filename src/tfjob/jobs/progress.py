"""How far a training is, by what it prints: `step 120/600`, `Epoch 3/10`, the bars of Keras and tqdm; pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import click

_OF = r"(?:\s*(?:/|of)\s*(?P<{0}>\d+))?"
_EPOCH = re.compile(r"(?<![\w/])epoch\b[\s:#=\[]*(?P<epoch>\d+)" + _OF.format("epochs") + r"\b", re.IGNORECASE)
_STEP = re.compile(
    # Neither a rate (`3ms/step`, `global_step/sec: 83`) nor a fraction (`step 0.5`) is a step.
    r"(?<![\w/])(?:global[_ ])?(?:step|iteration|iter)\b(?!/)[\s:#=\[]*(?P<step>\d+)(?!\.\d)"
    + _OF.format("steps")
    + r"\b",
    re.IGNORECASE,
)
_BATCH = re.compile(r"(?<![\w/])batch\b[\s:#=\[]*(?P<step>\d+)\s*(?:/|of)\s*(?P<steps>\d+)\b", re.IGNORECASE)
_KERAS = re.compile(r"\s*(?P<step>\d+)/(?:(?P<steps>\d+)|Unknown)\s+(?:[\[━]|-\s|\d+(?:h|m|s|ms|us)\b)")
_TQDM = re.compile(r"\d+%\|.*\|\s*(?P<step>\d+)/(?P<steps>\d+) \[")
_LOSS = re.compile(r"(?<![\w-])loss\b\s*[:=]?\s*(?P<loss>[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?|nan|inf)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Progress:
    """What is known of a training; a line that says nothing of it changes nothing."""

    epoch: int | None = None
    epochs: int | None = None
    step: int | None = None
    steps: int | None = None
    loss: str = ""

    def after(self, line: str) -> Progress:
        """The progress once a replica has printed a line."""
        text = click.unstyle(line)
        epoch = _EPOCH.search(text)
        step = _KERAS.match(text) or _TQDM.search(text) or _STEP.search(text) or _BATCH.search(text)
        found = self
        if epoch:
            number, of = int(epoch["epoch"]), _number(epoch["epochs"])
            # The steps of Keras begin anew with each epoch.
            same = number == self.epoch
            found = replace(found if same else Progress(), epoch=number, epochs=of or (self.epochs if same else None))
        if step:
            found = replace(found, step=int(step["step"]), steps=_number(step["steps"]))
        if found is not self and (loss := _LOSS.search(text)):
            found = replace(found, loss=loss["loss"])
        return found

    def __str__(self) -> str:
        """In a few words; empty when nothing is known."""
        words = []
        if self.epoch is not None:
            words.append(f"epoch {_of(self.epoch, self.epochs)}")
        if self.step is not None:
            words.append(f"step {_of(self.step, self.steps)}")
            if self.steps and self.epoch is None:
                words.append(f"{min(100, 100 * self.step // self.steps)}%")
        return " ".join([*words, f"loss {self.loss}"] if self.loss else words)


def _number(digits: str | None) -> int | None:
    return int(digits) if digits else None


def _of(number: int, whole: int | None) -> str:
    return f"{number}/{whole}" if whole else str(number)
