"""What both servers share: requests on arrays. Every method raises Status."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from tfjob.serve import call
from tfjob.serve.batch import Queue
from tfjob.serve.call import Call
from tfjob.serve.config import ModelConfig
from tfjob.serve.errors import Code, Status, invalid
from tfjob.serve.metrics import Metrics
from tfjob.serve.models import Models, Version, VersionStatus
from tfjob.serve.savedmodel import CLASSIFY, DEFAULT_SIGNATURE, INIT, REGRESS, Signature
from tfjob.serve.tensors import Array

ENGINE_THREADS = 4 * (os.cpu_count() or 1)
T = TypeVar("T")


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


@dataclass(frozen=True, slots=True)
class Task:
    """A part of MultiInference: a signature and whether it classifies or regresses."""

    spec: ModelSpec
    method: str


class Predictor:
    """Answers requests; `deadline` is in seconds of the event loop's clock (`loop.time()`).

    With `checks_methods`, Classify and Regress run only signatures that are declared for them. `threads` is the number
    of runs at once, of all models together.
    """

    def __init__(
        self, models: Models, metrics: Metrics, checks_methods: bool = False, threads: int = ENGINE_THREADS
    ) -> None:
        self.models = models
        self.metrics = metrics
        self._checks_methods = checks_methods
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="engine")

    async def predict(
        self,
        spec: ModelSpec,
        inputs: Mapping[str, Array],
        output_filter: Sequence[str] = (),
        deadline: float | None = None,
    ) -> Prediction:
        with self._find(spec) as version:
            signature = _predict_signature(version, spec)
            outputs = await self._run(version, call.predict(signature, inputs, output_filter), deadline)
            return Prediction(spec.name, version.number, signature.name, outputs)

    async def classify(self, spec: ModelSpec, examples: Sequence[bytes], deadline: float | None = None) -> Prediction:
        """Run a classification on serialized Examples, each merged with the context.

        Outputs: `classes` (bytes) and `scores` (float32), each [examples, classes] and each only if the model has it.
        """
        with self._find(spec) as version:
            signature = self._examples_signature(version, spec, CLASSIFY)
            outputs = await self._run(version, call.classify(signature, examples), deadline)
            call.check_classification(outputs, len(examples))
            return Prediction(spec.name, version.number, signature.name, outputs)

    async def regress(self, spec: ModelSpec, examples: Sequence[bytes], deadline: float | None = None) -> Prediction:
        """Run a regression on serialized Examples; the output is `outputs` (float32), [examples]."""
        with self._find(spec) as version:
            signature = self._examples_signature(version, spec, REGRESS)
            outputs = await self._run(version, call.regress(signature, examples), deadline)
            values = call.check_regression(outputs, len(examples))
            return Prediction(spec.name, version.number, signature.name, {call.OUTPUTS: values})

    async def multi_inference(
        self, tasks: Sequence[Task], examples: Sequence[bytes], deadline: float | None = None
    ) -> list[Prediction]:
        """Run several classifications and regressions of one version on the same Examples."""
        if not tasks:
            raise invalid("Inference request has no tasks.")
        if len({task.spec.name for task in tasks}) > 1:
            raise invalid("All ModelSpecs in a MultiInferenceRequest must access the same model name.")
        signatures = [task.spec.signature for task in tasks]
        for signature in signatures:
            if signatures.count(signature) > 1:
                raise invalid(f"Duplicate evaluation of signature: {signature or DEFAULT_SIGNATURE}")
        predictions = []
        with self._find(tasks[0].spec) as version:
            calls = [
                call.infer(self._examples_signature(version, task.spec, task.method), task.method, examples)
                for task in tasks
            ]
            for task, one in zip(tasks, calls, strict=True):
                outputs = await self._run(version, one, deadline)
                if task.method == CLASSIFY:
                    call.check_classification(outputs, len(examples))
                else:
                    outputs = {call.OUTPUTS: call.check_regression(outputs, len(examples))}
                predictions.append(Prediction(task.spec.name, version.number, one.signature.name, outputs))
        return predictions

    def metadata(self, spec: ModelSpec) -> Metadata:
        with self._find(spec) as version:
            signatures = {name: one for name, one in version.model.signatures.items() if name != INIT}
            return Metadata(spec.name, version.number, signatures)

    def signature(self, spec: ModelSpec) -> Signature:
        """Return the signature that `predict` would use: REST reads names and types of it before it decodes a body."""
        with self._find(spec) as version:
            return _predict_signature(version, spec)

    def status(self, spec: ModelSpec) -> list[VersionStatus]:
        """Return the rows of a model, newest version first, or the one that the request names."""
        if not spec.name:
            raise invalid("ModelSpec has no name specified.")
        rows = self.models.statuses().get(spec.name, [])
        number = spec.version
        if spec.label:
            labels = self.models.labels(spec.name)
            if spec.label not in labels:
                raise invalid(f"Unrecognized servable version label: {spec.label}")
            number = labels[spec.label]
        if number is not None:
            rows = [row for row in rows if row.version == number]
        if not rows:
            missing = "any versions" if number is None else f"version {number}"
            raise Status(Code.NOT_FOUND, f"Could not find {missing} of model {spec.name}")
        return rows

    async def reload(self, configs: Sequence[ModelConfig]) -> None:
        """Replace the list of models; return when the new ones are available."""
        await asyncio.to_thread(self.models.configure, configs)
        if missing := self.models.not_ready():
            raise Status(Code.UNKNOWN, f"{len(missing)} servable(s) did not become available: {' '.join(missing)}")

    def close(self) -> None:
        self._threads.shutdown(wait=False)

    def _find(self, spec: ModelSpec) -> Version:
        return self.models.find(spec.name, spec.version, spec.label)

    def _examples_signature(self, version: Version, spec: ModelSpec, method: str) -> Signature:
        name = spec.signature or DEFAULT_SIGNATURE
        signature = version.model.signatures.get(name)
        if signature is None or name == INIT:
            raise invalid(f"No signature was found with the name: {name}")
        if self._checks_methods:
            call.check_method(signature, method)
        return signature

    async def _run(self, version: Version, one: Call, deadline: float | None) -> dict[str, Array]:
        queue = version.queues.get(one.signature.name)
        if queue is None:
            queue = version.queues[one.signature.name] = Queue(version, one.signature, self._threads, self.metrics)
        self.metrics.examples(version.name, one.rows)
        outputs: dict[str, Array] = await _until(deadline, queue.run(one, deadline))
        return outputs


def _predict_signature(version: Version, spec: ModelSpec) -> Signature:
    name = spec.signature or DEFAULT_SIGNATURE
    signature = version.model.signatures.get(name)
    if signature is None or name == INIT:
        raise Status(Code.FAILED_PRECONDITION, f'Serving signature key "{name}" not found.')
    return signature


async def _until(deadline: float | None, work: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout_at(deadline):
            return await work
    except TimeoutError:
        raise Status(Code.DEADLINE_EXCEEDED, "The deadline was over before the model answered.") from None
