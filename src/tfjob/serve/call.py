"""One call of a signature: inputs and outputs by alias, checked, with TensorFlow Serving's codes and texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tfjob.serve import protos, tensors
from tfjob.serve.engine import Engine
from tfjob.serve.errors import Code, Status, invalid
from tfjob.serve.savedmodel import CLASSIFY, REGRESS, Signature, TensorSpec
from tfjob.serve.tensors import Array

EXAMPLES = "inputs"
"""The alias of the only input of a classification or regression: serialized Examples."""
CLASSES, SCORES, OUTPUTS = "classes", "scores", "outputs"
PREDICT_API, CLASSIFY_API, REGRESS_API, MULTI_API = "Predict", "Classify", "Regress", "MultiInference"
"""The API of a request, in the metrics."""


@dataclass(frozen=True, slots=True)
class Call:
    """Inputs by alias that suit the signature, and the aliases of the outputs that are wanted."""

    signature: Signature
    inputs: Mapping[str, Array]
    outputs: tuple[str, ...]
    api: str = PREDICT_API

    @property
    def rows(self) -> int:
        """The length of the first dimension of the inputs; 1 if they have none."""
        return next((array.shape[0] for array in self.inputs.values() if array.ndim), 1)


def run(engine: Engine, call: Call) -> dict[str, Array]:
    """Run a call; this blocks."""
    names = call.signature.inputs
    feeds = {names[alias].name: array for alias, array in call.inputs.items()}
    fetches = [call.signature.outputs[alias].name for alias in call.outputs]
    return dict(zip(call.outputs, engine.run(feeds, fetches), strict=True))


def has_batches(signature: Signature) -> bool:
    """Tell whether every input and output has a first dimension of any length, so that calls can share a run."""
    specs = [*signature.inputs.values(), *signature.outputs.values()]
    return bool(signature.inputs) and all(spec.shape and spec.shape[0] is None for spec in specs)


def predict(signature: Signature, inputs: Mapping[str, Array], output_filter: Sequence[str] = ()) -> Call:
    """Check the inputs and outputs of a prediction."""
    if inputs.keys() != signature.inputs.keys():
        inputs = _with_defaults(signature, inputs)
    for alias, array in inputs.items():
        _check_input(alias, signature.inputs[alias], array)
    # In the order of the signature, whatever the order of the request: calls that share a run must have the same.
    in_order = {alias: inputs[alias] for alias in signature.inputs}
    return Call(signature, in_order, _wanted(signature, output_filter))


def classify(signature: Signature, examples: Sequence[bytes]) -> Call:
    """Check a classification: one input, and classes or scores as outputs."""
    outputs = tuple(alias for alias in (CLASSES, SCORES) if alias in signature.outputs)
    if not outputs:
        raise invalid(
            f"Expected classification signature outputs to contain {CLASSES} or {SCORES}, "
            f"but the signature {signature.name} has {_names(signature.outputs)}."
        )
    return _on_examples(signature, examples, outputs, CLASSIFY_API)


def regress(signature: Signature, examples: Sequence[bytes]) -> Call:
    """Check a regression: one input and one output."""
    if OUTPUTS not in signature.outputs:
        raise invalid(
            f"Expected regression signature outputs to contain {OUTPUTS}, "
            f"but the signature {signature.name} has {_names(signature.outputs)}."
        )
    return _on_examples(signature, examples, (OUTPUTS,), REGRESS_API)


def infer(signature: Signature, method: str, examples: Sequence[bytes]) -> Call:
    """Check a task of MultiInference."""
    if method not in (CLASSIFY, REGRESS):
        raise Status(Code.UNIMPLEMENTED, f"Unsupported signature method_name: {method}")
    return replace((classify if method == CLASSIFY else regress)(signature, examples), api=MULTI_API)


def check_method(signature: Signature, method: str) -> None:
    """Raise Status if the signature is for another method; only with --enable_signature_method_name_check."""
    if signature.method_name != method:
        kind = {CLASSIFY: "classification", REGRESS: "regression"}[method]
        raise invalid(
            f"Expected {kind} signature method_name to be {method}. Was: {signature.method_name or 'empty'} "
            f"(signature {signature.name})."
        )


def check_classification(outputs: Mapping[str, Array], rows: int) -> None:
    """Raise Status if the outputs of a classification are not matrices with one row for each example."""
    for alias, kind in ((CLASSES, "O"), (SCORES, "f")):
        array = outputs.get(alias)
        if array is not None and (array.ndim != 2 or len(array) != rows or array.dtype.kind != kind):
            raise invalid(
                f"The output {alias} must have the shape [{rows},?], and be {'strings' if kind == 'O' else 'numbers'}; "
                f"it has the shape {tensors.format_shape(array.shape)} and the type {tensors.NAMES[array.dtype]}."
            )
    shapes = {array.shape for array in outputs.values()}
    if len(shapes) > 1:
        raise invalid(f"The outputs {CLASSES} and {SCORES} must have the same shape.")


def check_regression(outputs: Mapping[str, Array], rows: int) -> Array:
    """Return the value of each example; raise Status if the output has another shape."""
    array = outputs[OUTPUTS]
    if array.shape not in ((rows,), (rows, 1)) or array.dtype.kind != "f":
        raise invalid(
            f"The output {OUTPUTS} must be numbers with the shape [{rows}] or [{rows},1]; it has the shape "
            f"{tensors.format_shape(array.shape)} and the type {tensors.NAMES[array.dtype]}."
        )
    return array.reshape(rows)


def _on_examples(signature: Signature, examples: Sequence[bytes], outputs: tuple[str, ...], api: str) -> Call:
    if not examples:
        raise invalid("Input is empty.")
    spec = signature.inputs.get(EXAMPLES)
    if spec is None or len(signature.inputs) != 1:
        raise invalid(
            f"Expected one input Tensor with the alias {EXAMPLES}, "
            f"but the signature {signature.name} has {_names(signature.inputs)}."
        )
    array = np.empty(len(examples), object)
    array[:] = examples
    _check_input(EXAMPLES, spec, array)
    return Call(signature, {EXAMPLES: array}, outputs, api)


def _with_defaults(signature: Signature, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Add the inputs that have a default; raise Status if one is missing or too many."""
    missing = signature.inputs.keys() - inputs.keys() - signature.defaults.keys()
    extra = inputs.keys() - signature.inputs.keys()
    if missing or extra:
        raise invalid(
            f"input size does not match signature: {len(inputs)}!={len(signature.inputs)} "
            f"len({_names(inputs)}) != len({_names(signature.inputs)}). "
            f"Sent extra: {_names(extra)}. Missing but required: {_names(missing)}."
        )
    defaults = signature.inputs.keys() - inputs.keys()
    return {**inputs, **{alias: _default(signature, alias) for alias in sorted(defaults)}}


def _default(signature: Signature, alias: str) -> Array:
    return tensors.to_array(protos.TensorProto.FromString(signature.defaults[alias]))


def _check_input(alias: str, spec: TensorSpec, array: Array) -> None:
    given = tensors.NAMES[array.dtype]
    if given != spec.dtype:
        raise invalid(f'The input "{alias}" must have the type {spec.dtype}, not {given}.')
    if spec.shape is None or array.shape == spec.shape:
        return
    suits = array.ndim == len(spec.shape) and all(
        size in (None, length) for size, length in zip(spec.shape, array.shape, strict=True)
    )
    if not suits:
        raise invalid(
            f'The input "{alias}" must have the shape {tensors.format_shape(spec.shape)}, '
            f"not {tensors.format_shape(array.shape)}."
        )


def _wanted(signature: Signature, output_filter: Sequence[str]) -> tuple[str, ...]:
    if not output_filter:
        return tuple(signature.outputs)
    for place, alias in enumerate(output_filter):
        if alias not in signature.outputs:
            raise invalid(
                f"output tensor alias not found in signature: {alias} "
                f"Outputs expected to be in the set {_names(signature.outputs)}."
            )
        if alias in output_filter[:place]:
            raise invalid(f"duplicate output tensor alias: {alias}")
    return tuple(alias for alias in signature.outputs if alias in output_filter)


def _names(aliases: Iterable[str]) -> str:
    return f"{{{','.join(sorted(aliases))}}}"
