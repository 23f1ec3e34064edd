"""The Open Inference Protocol (version 2) over REST: its documents, from and to arrays.

`documents` answers the GET routes; `read_request` and `infer_reply` translate a request to `infer` and its reply.
KServe, Triton and MLServer speak this protocol too.
"""

from __future__ import annotations

import base64
import importlib.metadata
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tfjob.serve import json_api
from tfjob.serve.errors import Code, Status, invalid
from tfjob.serve.models import State
from tfjob.serve.predict import ModelSpec, Prediction, Predictor
from tfjob.serve.savedmodel import DEFAULT_SIGNATURE, TensorSpec
from tfjob.serve.tensors import NAMES, Array

MODEL = re.compile(r"/v2/models/(?P<name>[^/]+)(?:/versions/(?P<version>[0-9]+))?(?P<action>/ready|/infer)?")
LONGEST_VERSION = 30
"""Digits of a version that are read: more than any version has, and fewer than Python refuses to read."""
PLATFORM = "tensorflow_savedmodel"
BASE64 = {"content_type": "base64"}
"""The parameters of a tensor whose strings are base64, as MLServer has them."""
DATATYPES = {
    "BOOL": "DT_BOOL",
    "UINT8": "DT_UINT8",
    "UINT16": "DT_UINT16",
    "UINT32": "DT_UINT32",
    "UINT64": "DT_UINT64",
    "INT8": "DT_INT8",
    "INT16": "DT_INT16",
    "INT32": "DT_INT32",
    "INT64": "DT_INT64",
    "FP16": "DT_HALF",
    "FP32": "DT_FLOAT",
    "FP64": "DT_DOUBLE",
    "BYTES": "DT_STRING",
}
DATATYPE_OF = {name: datatype for datatype, name in DATATYPES.items()}
Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class InferRequest:
    """A request to infer; without `outputs`, the reply has all of them."""

    id: str
    signature: str
    inputs: dict[str, Array]
    outputs: Sequence[str]


def documents(predictor: Predictor, reasons: Sequence[str], path: str) -> tuple[Document, int] | None:
    """Return the document of a GET route and its HTTP status; None if there is no such route.

    `reasons` are those why the server is not ready. Raise Status for an unknown model.
    """
    match path.lower().rstrip("/"):
        case "/v2":
            return {"name": "tfjob", "version": importlib.metadata.version("tfjob"), "extensions": []}, 200
        case "/v2/health/live":
            return {"live": True}, 200
        case "/v2/health/ready":
            return {"ready": not reasons}, 503 if reasons else 200
        case "/v2/models":
            names = predictor.models.names()
            return {"models": [{"name": name, "versions": _versions(predictor, name)} for name in names]}, 200
    route = MODEL.fullmatch(path)
    if not route or route["action"] == "/infer":
        return None
    spec = ModelSpec(route["name"], int(route["version"][:LONGEST_VERSION]) if route["version"] else None)
    if not route["action"]:
        return _metadata(predictor, spec), 200
    versions = _versions(predictor, spec.name)
    is_ready = bool(versions) if spec.version is None else str(spec.version) in versions
    return {"name": spec.name, "ready": is_ready}, 200 if is_ready else 503


def read_request(body: bytes) -> InferRequest:
    """Return the request in a body; raise Status if it is invalid."""
    document = json_api.parse(body)
    tensors = document.get("inputs")
    if not isinstance(tensors, list) or not tensors:
        raise invalid("'inputs' must be a list with at least one tensor")
    inputs = {}
    for position, tensor in enumerate(tensors):
        name, array = _read_tensor(tensor, f"inputs[{position}]")
        if name in inputs:
            raise invalid(f"inputs[{position}]: the name '{name}' is used twice")
        inputs[name] = array
    outputs = document.get("outputs", [])
    if not isinstance(outputs, list) or not all(isinstance(_field(one, "name"), str) for one in outputs):
        raise invalid("'outputs' must be a list of objects with a name")
    identifier, signature = document.get("id", ""), _field(document.get("parameters"), "signature_name") or ""
    if not isinstance(identifier, str) or not isinstance(signature, str):
        raise invalid("'id' and 'parameters.signature_name' must be strings")
    return InferRequest(identifier, signature, inputs, [one["name"] for one in outputs])


def infer_reply(request: InferRequest, prediction: Prediction) -> bytes:
    """Return the body of the reply: every output with its shape, datatype and values in row-major order."""
    names = request.outputs or list(prediction.outputs)
    outputs = [_write_tensor(name, prediction.outputs[name]) for name in names]
    document: Document = {"model_name": prediction.name, "model_version": str(prediction.version)}
    if request.id:
        document["id"] = request.id
    return json_api.dump({**document, "outputs": outputs}, prediction.outputs.values())


def _versions(predictor: Predictor, name: str) -> list[str]:
    """Return the versions that serve; raise Status if the model is unknown."""
    rows = predictor.models.statuses().get(name) if name in predictor.models.names() else None
    if rows is None:
        raise Status(Code.NOT_FOUND, f"Could not find any versions of model {name}")
    return [str(row.version) for row in rows if row.state is State.AVAILABLE]


def _metadata(predictor: Predictor, spec: ModelSpec) -> Document:
    found = predictor.metadata(spec)
    first = found.signatures.get(DEFAULT_SIGNATURE) or next(iter(found.signatures.values()), None)
    inputs, outputs = (first.inputs, first.outputs) if first else ({}, {})
    return {
        "name": found.name,
        "versions": _versions(predictor, spec.name),
        "platform": PLATFORM,
        "inputs": [_describe(name, one) for name, one in inputs.items()],
        "outputs": [_describe(name, one) for name, one in outputs.items()],
    }


def _describe(name: str, spec: TensorSpec) -> Document:
    shape = [-1] if spec.shape is None else [-1 if size is None else size for size in spec.shape]
    return {"name": name, "datatype": DATATYPE_OF.get(spec.dtype, spec.dtype), "shape": shape}


def _read_tensor(tensor: Any, place: str) -> tuple[str, Array]:
    name, datatype, shape = (_field(tensor, key) for key in ("name", "datatype", "shape"))
    if not isinstance(name, str) or "data" not in tensor:
        raise invalid(f"{place} must be an object with name, shape, datatype and data")
    if not isinstance(datatype, str) or datatype not in DATATYPES:
        raise invalid(f"{place}.datatype is {json_api.quote(datatype)}; use one of {', '.join(DATATYPES)}")
    if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
        raise invalid(f"{place}.shape is {json_api.quote(shape)}; it must be a list of sizes")
    array = json_api.array(tensor["data"], TensorSpec(name, DATATYPES[datatype], None), name)
    if len(shape) > json_api.MOST_DIMENSIONS or array.size != math.prod(shape):
        raise invalid(f"{place} has {array.size} values, but its shape is {json_api.quote(shape)}")
    if datatype == "BYTES" and _field(tensor.get("parameters"), "content_type") == BASE64["content_type"]:
        array = _decoded(array, place)
    return name, array.reshape(shape)


def _decoded(array: Array, place: str) -> Array:
    try:
        return json_api.strings([{"b64": text.decode()} for text in array.ravel().tolist()], place)
    except UnicodeDecodeError:
        raise invalid(f"{place}.data is not base64") from None


def _write_tensor(name: str, array: Array) -> Document:
    datatype = DATATYPE_OF.get(NAMES.get(array.dtype, ""))
    if datatype is None:
        raise invalid(f"output '{name}' has the type {array.dtype}, which this protocol cannot express; use gRPC")
    document: Document = {"name": name, "shape": list(array.shape), "datatype": datatype}
    flat = array.ravel()
    if datatype != "BYTES":
        return {**document, "data": flat}
    try:
        return {**document, "data": [text.decode() for text in flat.tolist()]}
    except UnicodeDecodeError:
        texts = [base64.b64encode(text).decode() for text in flat.tolist()]
        return {**document, "parameters": BASE64, "data": texts}


def _field(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None
