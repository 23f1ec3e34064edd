"""A sample request for a signature: arrays of zeros with its types and shapes, and the curl command that sends them.

curl -d '{"instances": [[0.0, 0.0]]}' http://127.0.0.1:8501/v1/models/spiral:predict
"""

from __future__ import annotations

import json
import math
import shlex
from typing import Any

import numpy as np

from tfjob.serve.savedmodel import CLASSIFY, DEFAULT_SIGNATURE, REGRESS, Signature, TensorSpec
from tfjob.serve.tensors import NUMPY, STRING, Array

MOST_VALUES = 16
"""Values that are written out; a longer list is written as a Python expression."""
BODY = "import json; print(json.dumps({}))"


def sample_inputs(signature: Signature) -> dict[str, Array]:
    """Return zeros, or empty strings, for the inputs without a default; sizes that the model leaves open are 1."""
    return {
        alias: np.full(_sizes(spec), b"", object) if spec.dtype == STRING else np.zeros(_sizes(spec), NUMPY[spec.dtype])
        for alias, spec in signature.inputs.items()
        if alias not in signature.defaults and spec.dtype in NUMPY
    }


def has_unknown_sizes(signature: Signature) -> bool:
    """Return whether a valid request cannot be made from the signature alone: open sizes, apart from the batch's."""
    return any(
        spec.shape is None or None in spec.shape[1:] or spec.dtype == STRING for spec in signature.inputs.values()
    )


def curl(signature: Signature, model: str, server: str = "127.0.0.1:8501") -> str:
    """Return a command that sends one example to REST, for a shell."""
    url = f"http://{server}/v1/models/{model}:{_method(signature)}"
    named = {} if signature.name == DEFAULT_SIGNATURE else {"signature_name": signature.name}
    if signature.method_name in (CLASSIFY, REGRESS):
        return f"curl -d {shlex.quote(json.dumps({**named, 'examples': [{'FEATURE': 0.0}]}))} {url}"
    inputs = {alias: spec for alias, spec in signature.inputs.items() if alias not in signature.defaults}
    as_python = any(math.prod(_sizes(spec)) > MOST_VALUES for spec in inputs.values())
    if all(spec.shape and spec.shape[0] is None for spec in inputs.values()):
        row = {alias: _lists(_sizes(spec)[1:], _value(spec), as_python) for alias, spec in inputs.items()}
        content = f'"instances": [{next(iter(row.values())) if len(row) == 1 else _object(row)}]'
    else:
        columns = {alias: _lists(_sizes(spec), _value(spec), as_python) for alias, spec in inputs.items()}
        content = f'"inputs": {_object(columns)}'
    fields = "".join(f'"{name}": {json.dumps(value)}, ' for name, value in named.items())
    body = f"{{{fields}{content}}}"
    if as_python:
        return f"python3 -c {shlex.quote(BODY.format(body))} | curl -d @- {url}"
    return f"curl -d {shlex.quote(body)} {url}"


def _method(signature: Signature) -> str:
    return {CLASSIFY: "classify", REGRESS: "regress"}.get(signature.method_name, "predict")


def _sizes(spec: TensorSpec) -> tuple[int, ...]:
    return tuple(1 if size is None else size for size in spec.shape or ())


def _object(fields: dict[str, str]) -> str:
    return "{" + ", ".join(f"{json.dumps(name)}: {value}" for name, value in fields.items()) + "}"


def _lists(sizes: tuple[int, ...], value: Any, as_python: bool) -> str:
    """Return nested lists of a value, as JSON or as an expression of Python: `[[0]*28]*28`."""
    text = repr(value) if as_python else json.dumps(value)
    for size in reversed(sizes):
        text = f"[{text}]*{size}" if as_python and size > 1 else f"[{', '.join([text] * size)}]"
    return text


def _value(spec: TensorSpec) -> Any:
    if spec.dtype == STRING:
        return "text"
    return {"b": False, "f": 0.0}.get(NUMPY[spec.dtype].kind, 0) if spec.dtype in NUMPY else 0
