"""A predictor without an engine: models that double their input, for tests of the servers alone."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import numpy as np

from tfjob.serve import protos
from tfjob.serve.errors import Code, Status
from tfjob.serve.models import State, VersionStatus
from tfjob.serve.predict import Metadata, ModelSpec, Prediction, Predictor
from tfjob.serve.savedmodel import CLASSIFY, PREDICT, REGRESS, Signature, TensorSpec
from tfjob.serve.tensors import Array

NUMBERS = {"x": TensorSpec("x:0", "DT_FLOAT", (None,))}
EXAMPLES = {"inputs": TensorSpec("examples:0", "DT_STRING", (None,))}
SIGNATURES = {
    "serving_default": Signature("serving_default", PREDICT, NUMBERS, {"y": TensorSpec("y:0", "DT_FLOAT", (None,))}),
    "text": Signature("text", PREDICT, {"s": TensorSpec("s:0", "DT_STRING", (None,))}, {}),
    "classify": Signature("classify", CLASSIFY, EXAMPLES, {}),
    "regress": Signature("regress", REGRESS, EXAMPLES, {}),
}


class ToyPredictor(Predictor):
    """The model `double` with version 3, labeled `stable`; its input is doubled.

    A request to the signature `text` waits for the event `go`. `running` counts the requests that wait.
    """

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.running = 0
        self.cancelled = 0

    async def predict(
        self,
        spec: ModelSpec,
        inputs: Mapping[str, Array],
        output_filter: Sequence[str] = (),
        deadline: float | None = None,
    ) -> Prediction:
        signature = self.signature(spec)
        if signature.name == "text":
            self.running += 1
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
            finally:
                self.running -= 1
        if any(np.any(value == 13) for value in inputs.values()):
            raise RuntimeError("unlucky")
        return Prediction(spec.name, 3, signature.name, {"y": next(iter(inputs.values())) * 2})

    async def classify(self, spec: ModelSpec, examples: Sequence[bytes], deadline: float | None = None) -> Prediction:
        self._check(spec)
        scores = np.array([[_first(example), 0.5] for example in examples], np.float32)
        classes = np.array([[b"a", b"b"]] * len(examples), np.object_)
        return Prediction(spec.name, 3, "classify", {"classes": classes, "scores": scores})

    async def regress(self, spec: ModelSpec, examples: Sequence[bytes], deadline: float | None = None) -> Prediction:
        self._check(spec)
        outputs = np.array([_first(example) for example in examples], np.float32)
        return Prediction(spec.name, 3, "regress", {"outputs": outputs})

    def metadata(self, spec: ModelSpec) -> Metadata:
        self._check(spec)
        return Metadata(spec.name, 3, SIGNATURES)

    def signature(self, spec: ModelSpec) -> Signature:
        self._check(spec)
        try:
            return SIGNATURES[spec.signature or "serving_default"]
        except KeyError:
            raise Status(Code.FAILED_PRECONDITION, "no such signature") from None

    def status(self, spec: ModelSpec) -> list[VersionStatus]:
        self._check(spec)
        return [VersionStatus(3, State.AVAILABLE), VersionStatus(2, State.END, Code.NOT_FOUND, "gone")]

    def _check(self, spec: ModelSpec) -> None:
        if spec.name != "double" or spec.version not in (None, 3):
            raise Status(Code.NOT_FOUND, f"Servable not found for request: Latest({spec.name})")
        if spec.label not in ("", "stable"):
            raise Status(Code.INVALID_ARGUMENT, f"Unrecognized servable version label: {spec.label}")


def _first(example: bytes) -> float:
    feature = protos.Example.FromString(example).features.feature["f"]
    return float(feature.float_list.value[0])
