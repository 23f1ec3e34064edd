"""What a classifier answers: the class of each image with its probabilities, and the error rate of many.

given = ask(model, choose_signature(model.signatures()), images)
print(f"it is a {given.classes[0]}", *bars(given, 0), sep="\\n")
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tfjob.errors import InvalidRequest
from tfjob.serve.client import Model
from tfjob.serve.images import fit
from tfjob.serve.savedmodel import Signature
from tfjob.serve.tensors import Array

BAR = "█"
MOST_CLASSES = 10
"""Bars of one image; of more classes, the most probable are shown."""


@dataclass(frozen=True, slots=True)
class Answers:
    """For each image its class, and the probability or the score of each class if the model returns them."""

    classes: Array
    scores: Array | None = None

    @property
    def are_probabilities(self) -> bool:
        """Whether the scores of each image sum to 1."""
        scores = self.scores
        return scores is not None and bool(np.all(scores >= 0) and np.allclose(scores.sum(axis=1), 1, atol=1e-2))


def answers(outputs: Mapping[str, Array]) -> Answers:
    """Return the answers in the outputs of a model: whole numbers are classes, rows of fractions are scores.

    Without an output of classes, the class with the highest score is the answer. Raises InvalidRequest for models that
    have neither.
    """
    arrays = [one for one in outputs.values() if one.ndim]
    scores = next((one for one in arrays if one.dtype.kind == "f" and one.ndim == 2 and one.shape[1] > 1), None)
    classes = next((one for one in arrays if one.dtype.kind in "iu" and one.size == len(one)), None)
    if classes is not None:
        return Answers(classes.reshape(-1), scores)
    if scores is None:
        raise InvalidRequest(
            f"the model is not a classifier: its outputs are {', '.join(sorted(outputs))}", "Use --json to print them."
        )
    return Answers(np.argmax(scores, axis=1), scores)


def ask(model: Model, signature: Signature, images: Array, scale: float = 1.0) -> Answers:
    """Send images (n, height, width[, 3]) in one request, in the type and shape of the signature's only input.

    Raises InvalidRequest if the signature does not take images, and Status.
    """
    alias = only_input(signature)
    return answers(model.predict({alias: fit(images, signature.inputs[alias], scale)}, signature.name))


def only_input(signature: Signature) -> str:
    """Return the name of the input of a signature that has one. Raises InvalidRequest."""
    aliases = [alias for alias in signature.inputs if alias not in signature.defaults]
    if len(aliases) != 1:
        inputs = ", ".join(aliases) or "none"
        raise InvalidRequest(f"signature '{signature.name}' does not have one input; its inputs: {inputs}")
    return aliases[0]


def bars(answer: Answers, number: int, width: int = 30) -> list[str]:
    """Return a line per class for an image: the class, a bar, and its probability or score."""
    if answer.scores is None:
        return []
    row = answer.scores[number].astype(float)
    shown = sorted(np.argsort(-row)[:MOST_CLASSES].tolist())
    low, high = (0.0, 1.0) if answer.are_probabilities else (min(0.0, row.min()), row.max())
    digits = max(len(str(one)) for one in shown)
    lines = []
    for one in shown:
        length = round((row[one] - low) / ((high - low) or 1) * width)
        value = f"{row[one]:6.1%}" if answer.are_probabilities else f"{row[one]:9.3f}"
        lines.append(f"{one:>{digits}}  {value}  {BAR * length}".rstrip())
    return lines


def error_rate(answer: Answers, labels: Array) -> float:
    return float(np.mean(answer.classes != labels))
