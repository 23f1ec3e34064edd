"""What both servers share: requests on arrays. Every method raises Status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from tfjob.serve.config import ModelConfig
from tfjob.serve.metrics import Metrics
from tfjob.serve.models import Models, VersionStatus
from tfjob.serve.savedmodel import Signature

Array = NDArray[Any]
"""Strings are arrays of objects (bytes)."""
DEFAULT_SIGNATURE = "serving_default"


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """The model, version and signature that a request names; without a version or label, the newest version answers."""

    name: str
    version: int | None = None
    label: str = ""
    signature: str = ""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Outputs by alias, and the version and signature that computed them."""

    name: str
    version: int
    signature: str
    outputs: Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Metadata:
    """The signatures of a version."""

    name: str
    version: int
    signatures: Mapping[str, Signature]


class Predictor:
    """Answers requests; `deadline` is in seconds of the event loop's clock (`loop.time()`)."""

    def __init__(self, models: Models, metrics: Metrics) -> None:
        self.models = models
        self.metrics = metrics

    async def predict(
        self,
        spec: ModelSpec,
        inputs: Mapping[str, Array],
        output_filter: Sequence[str] = (),
        deadline: float | None = None,
    ) -> Prediction:
        raise NotImplementedError

    async def classify(self, spec: ModelSpec, examples: Sequence[bytes], deadline: float | None = None) -> Prediction:
        """Run a classification on serialized Examples, each merged with the context.

        Outputs: `classes` (bytes) and `scores` (float32), each [examples, classes] and each only if the model has it.
        """
        raise NotImplementedError

    async def regress(self, spec: ModelSpec, examples: Sequence[bytes], deadline: float | None = None) -> Prediction:
        """Run a regression on serialized Examples; the output is `outputs` (float32), [examples]."""
        raise NotImplementedError

    def metadata(self, spec: ModelSpec) -> Metadata:
        raise NotImplementedError

    def signature(self, spec: ModelSpec) -> Signature:
        """Return the signature that `predict` would use: REST reads names and types of it before it decodes a body."""
        raise NotImplementedError

    def status(self, spec: ModelSpec) -> list[VersionStatus]:
        raise NotImplementedError

    async def reload(self, configs: Sequence[ModelConfig]) -> None:
        raise NotImplementedError
