"""What a SavedModel folder contains, read without TensorFlow: signatures, size, and whether it is complete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PREDICT = "tensorflow/serving/predict"
CLASSIFY = "tensorflow/serving/classify"
REGRESS = "tensorflow/serving/regress"


class InvalidModel(Exception):
    """A folder that is not a complete SavedModel; the message names the folder and what is missing."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """An input or output: the tensor's name in the graph, its type (`DT_FLOAT`), and its shape.

    An unknown size is None, and so is a shape of unknown rank.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...] | None


@dataclass(frozen=True, slots=True)
class Signature:
    """A function of a model: its inputs and outputs by alias. `defaults` are serialized TensorProtos."""

    name: str
    method_name: str
    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]
    defaults: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SavedModel:
    """A complete SavedModel; `size` is that of its files in bytes."""

    folder: Path
    tags: tuple[str, ...]
    tensorflow_version: str
    signatures: Mapping[str, Signature]
    size: int


def read(folder: Path, tags: Sequence[str] = ("serve",)) -> SavedModel:
    """Read the meta graph that has exactly these tags; raise InvalidModel if the folder is not complete."""
    raise NotImplementedError


def missing_files(folder: Path) -> list[str]:
    """Return the files that a complete SavedModel would have and that the folder does not have."""
    raise NotImplementedError
