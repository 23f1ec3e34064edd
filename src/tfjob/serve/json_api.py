"""The JSON of TensorFlow Serving's REST API to arrays, and arrays to JSON. Pure.

1. `parse(body)` returns the document of a request.
2. `predict_inputs(document, signature)` returns arrays, and whether the request has rows (`instances`).
3. `predict_reply(outputs, has_rows)` returns the body of the reply.

For the other two methods there are `examples`, `classify_reply` and `regress_reply`. All errors are `Status`.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import orjson
from google.protobuf import json_format
from numpy.typing import NDArray

from tfjob.serve import protos
from tfjob.serve.errors import Code, invalid
from tfjob.serve.savedmodel import Signature, TensorSpec
from tfjob.serve.tensors import NUMPY

Array = NDArray[Any]
Document = dict[str, Any]

KINDS: dict[str, set[type]] = {
    "f": {int, float},
    "i": {int},
    "u": {int},
    "b": {bool},
    "O": {str, dict},
}
"""The types of JSON values by kind of numpy type: those that JSON can express."""
JSON_NAMES = {str: "a string", bool: "a boolean", int: "an integer", float: "a number with a fraction or exponent"}
JSON_NAMES |= {dict: "an object", list: "a list", type(None): "null"}
MOST_DIMENSIONS = 32
LONGEST_QUOTE = 100
"""Characters of a value that an error message repeats."""
SPECIAL_NUMBERS = (b"NaN", b"Infinity")
INT64 = range(-(1 << 63), 1 << 63)


# --- requests ---


def parse(body: bytes) -> Document:
    """Return the JSON object of a request; NaN, Infinity and -Infinity are numbers."""
    if not body.strip():
        raise invalid("JSON Parse error: The document is empty")
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        document = _parse_special(body, error)
    if not isinstance(document, dict):
        raise invalid(f"JSON Value: {quote(document)} Is not object")
    if not isinstance(document.get("signature_name", ""), str):
        raise invalid(f"'signature_name' key must be a string value, not {quote(document['signature_name'])}")
    return document


def predict_inputs(document: Document, signature: Signature) -> tuple[dict[str, Array], bool]:
    """Return the inputs by alias, and whether the request has rows."""
    if "instances" in document and "inputs" in document:
        raise invalid("Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist")
    if "instances" in document:
        return _rows(document["instances"], signature), True
    if "inputs" in document:
        return _columns(document["inputs"], signature), False
    raise invalid("Missing 'inputs' or 'instances' key")


def examples(document: Document) -> list[bytes]:
    """Return the serialized Examples of a request to classify or regress, each merged with the context."""
    found = document.get("examples")
    if not isinstance(found, list) or not found:
        raise invalid("key 'examples' is expected and must be a list with at least one example")
    context = _example(document["context"], "'context'") if "context" in document else b""
    return [context + _example(example, f"item {position} of 'examples'") for position, example in enumerate(found)]


def array(value: Any, spec: TensorSpec, name: str) -> Array:
    """Return a JSON value, a scalar or nested lists, as an array of the type of an input."""
    target = NUMPY.get(spec.dtype)
    if target is None or target.kind not in KINDS:
        raise invalid(f"input '{name}' has the type {spec.dtype}, which JSON cannot express; use gRPC")
    shape, leaves, kinds = _flatten(value, name)
    if target.kind == "O":
        return strings(leaves, f"input '{name}'").reshape(shape)
    allowed = KINDS[target.kind]
    if not kinds <= allowed:
        wrong = next(leaf for leaf in leaves if type(leaf) not in allowed)
        raise invalid(f"input '{name}': {quote(wrong)} is {JSON_NAMES[type(wrong)]}, expected {spec.dtype}")
    if not leaves:
        return np.empty(shape, target)
    try:
        # Half the time of NumPy's own conversion, which also lets numbers overflow in old versions.
        # Only the standard format, "=", checks the range of floats; only the native one, "@", has NumPy's letters.
        order = "=" if target.kind == "f" else "@"
        return np.frombuffer(struct.pack(f"{order}{len(leaves)}{target.char}", *leaves), target).reshape(shape)
    except (struct.error, OverflowError):
        raise invalid(f"input '{name}': a number is out of the range of {spec.dtype}") from None


def strings(leaves: Sequence[Any], place: str) -> Array:
    """Return JSON strings, and base64 objects, as an array of bytes objects."""
    result = np.empty(len(leaves), np.object_)
    for position, leaf in enumerate(leaves):
        if isinstance(leaf, str):
            result[position] = leaf.encode()
        elif _is_base64(leaf):
            result[position] = _decode_base64(leaf, place)
        else:
            raise invalid(
                f'{place}: {quote(leaf)} is {JSON_NAMES[type(leaf)]}, expected a string or {{"b64": "..."}} (DT_STRING)'
            )
    return result


def _parse_special(body: bytes, error: orjson.JSONDecodeError) -> Any:
    """Parse a body with the standard library if it may have NaN or Infinity, which orjson rejects."""
    message, position = error.msg, error.pos
    if any(number in body for number in SPECIAL_NUMBERS):
        try:
            document = json.loads(body)
            orjson.dumps(document)  # rejects halves of characters (a lone "\\ud800") and what else orjson cannot read
            return document
        except json.JSONDecodeError as again:
            message, position = again.msg, again.pos
        except RecursionError:
            message = "the document has too many levels"
        except (TypeError, ValueError) as again:
            message = str(again)
    raise invalid(f"JSON Parse error: {message} at offset: {position}")


def _rows(instances: Any, signature: Signature) -> dict[str, Array]:
    if not isinstance(instances, list):
        raise invalid("Expecting 'instances' to be a list/array")
    if not instances:
        raise invalid("No values in 'instances' array")
    inputs = signature.inputs
    has_names = [isinstance(instance, dict) and not _is_base64(instance) for instance in instances]
    if not any(has_names):
        if len(inputs) != 1:
            raise invalid(f"instances is a plain list, but expecting list of objects with the inputs {_listed(inputs)}")
        ((name, spec),) = inputs.items()
        return {name: array(instances, spec, name)}
    if not all(has_names):
        raise invalid(f"item {has_names.index(False)} of 'instances' is not an object, but other items are objects")
    keys = instances[0].keys()
    for position, instance in enumerate(instances):
        if instance.keys() != keys:
            raise invalid(
                f"Failed to process element: {position} of 'instances' list: it has the keys {_listed(instance)},"
                f" and the first element has {_listed(keys)}"
            )
    _check_names(keys, signature)
    return {name: array([instance[name] for instance in instances], inputs[name], name) for name in keys}


def _columns(value: Any, signature: Signature) -> dict[str, Array]:
    inputs = signature.inputs
    if not isinstance(value, dict) or _is_base64(value):
        if len(inputs) != 1:
            raise invalid(f"inputs is a plain value/list, but expecting an object with the inputs {_listed(inputs)}")
        ((name, spec),) = inputs.items()
        return {name: array(value, spec, name)}
    _check_names(value, signature)
    return {name: array(given, inputs[name], name) for name, given in value.items()}


def _check_names(given: Iterable[str], signature: Signature) -> None:
    """Raise Status, with TensorFlow Serving's sentence, if an input is missing or unknown."""
    names, known = set(given), set(signature.inputs)
    extra, missing = names - known, known - names - set(signature.defaults)
    if extra or missing:
        raise invalid(
            f"input size does not match signature: {len(names)}!={len(known)} len({_listed(names)}) !="
            f" len({_listed(known)}). Sent extra: {_listed(extra)}. Missing but required: {_listed(missing)}."
        )


def _flatten(value: Any, name: str) -> tuple[list[int], list[Any], set[type]]:
    """Return the shape of nested lists, their leaves in order, and the types of the leaves."""
    shape: list[int] = []
    level = [value]
    while (kinds := set(map(type, level))) & {list}:
        if len(kinds) > 1:
            raise invalid(f"input '{name}': dimension {len(shape)} has both lists and values; all must have one shape")
        lengths = set(map(len, level))
        if len(lengths) > 1:
            raise invalid(
                f"input '{name}': the lists in dimension {len(shape)} have different lengths"
                f" ({min(lengths)} and {max(lengths)}); all must have one shape"
            )
        shape.append(lengths.pop())
        if len(shape) > MOST_DIMENSIONS:
            raise invalid(f"input '{name}' has more than {MOST_DIMENSIONS} dimensions")
        level = list(chain.from_iterable(level))
    return shape, level, kinds


def _is_base64(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"b64"} and isinstance(value["b64"], str)


def _decode_base64(value: Mapping[str, str], place: str) -> bytes:
    try:
        return base64.b64decode(value["b64"], validate=True)
    except (binascii.Error, ValueError):
        raise invalid(f"{place}: Unable to base64 decode {quote(value['b64'])}") from None


def _example(value: Any, place: str) -> bytes:
    if not isinstance(value, dict):
        raise invalid(f"Example must be JSON object but got {JSON_NAMES[type(value)]} ({place})")
    example = protos.Example()
    for name, given in value.items():
        _set_feature(example.features.feature[name], given if isinstance(given, list) else [given], name)
    return bytes(example.SerializeToString())


def _set_feature(feature: Any, values: list[Any], name: str) -> None:
    """Set a feature: strings are bytes, numbers with a fraction or exponent are floats, others are integers."""
    kinds = set(map(type, values))
    if kinds <= {str, dict}:
        if kinds:
            feature.bytes_list.value.extend(strings(values, f"Feature: {name}").tolist())
    elif kinds <= {int, bool}:
        if not all(value in INT64 for value in values):
            raise invalid(f"Feature: {name} Only int64_t is supported")
        feature.int64_list.value.extend(map(int, values))
    elif kinds <= {int, float}:
        with np.errstate(over="ignore"):
            feature.float_list.value.extend(np.array(values, np.float64).astype(np.float32).tolist())
    else:
        found = ", ".join(sorted(JSON_NAMES[kind] for kind in kinds))
        raise invalid(f"Feature: {name} has elements of unexpected or different JSON types: {found}")


# --- replies ---


def predict_reply(outputs: Mapping[str, Array], has_rows: bool) -> bytes:
    """Return the body of a reply: a prediction for each instance, or one value for each output."""
    values = {name: value(name, output) for name, output in outputs.items()}
    only = next(iter(values.values())) if len(values) == 1 else None
    if not has_rows:
        return dump({"outputs": values if only is None else only}, outputs.values())
    sizes = {output.shape[0] if output.ndim else None for output in outputs.values()}
    if len(sizes) != 1 or None in sizes:
        shapes = ", ".join(f"{name} {list(output.shape)}" for name, output in outputs.items())
        raise invalid(f"the outputs ({shapes}) have no common first dimension: use the columnar format ('inputs')")
    if only is not None:
        return dump({"predictions": only}, outputs.values())
    rows = zip(*values.values(), strict=True)
    return dump({"predictions": [dict(zip(values, row, strict=True)) for row in rows]}, outputs.values())


def classify_reply(outputs: Mapping[str, Array]) -> bytes:
    """Return the body of a reply: pairs of label and score for each example. A model may have only one of them."""
    shape = next(iter(outputs.values())).shape
    labels = value("classes", outputs.get("classes", np.full(shape, b"", np.object_)))
    scores = outputs.get("scores", np.zeros(shape, np.float32))
    rows = [list(map(list, zip(*row, strict=True))) for row in zip(labels, scores, strict=True)]
    return dump({"results": rows}, [scores])


def regress_reply(outputs: Mapping[str, Array]) -> bytes:
    numbers = outputs["outputs"].ravel()
    return dump({"results": numbers}, [numbers])


def status_reply(rows: Iterable[tuple[int, str, Code, str]]) -> bytes:
    """Return the status of versions, given as version, state, code and message."""
    versions = [
        {
            "version": str(version),
            "state": state,
            "status": {"error_code": code.name, "error_message": message},
        }
        for version, state, code, message in rows
    ]
    return orjson.dumps({"model_version_status": versions}, option=orjson.OPT_INDENT_2)


def metadata_reply(name: str, version: int, signatures: Mapping[str, Signature]) -> bytes:
    spec = {"name": name, "signature_name": "", "version": str(version)}
    found = {key: _signature(signature) for key, signature in signatures.items()}
    metadata = {"signature_def": {"signature_def": found}}
    return orjson.dumps({"model_spec": spec, "metadata": metadata}, option=orjson.OPT_INDENT_2)


def error_reply(message: str) -> bytes:
    """Return the body of an error. A message may quote bytes of a request that are not UTF-8."""
    return orjson.dumps({"error": message.encode(errors="replace").decode()})


def dump(document: Any, arrays: Iterable[Array] = ()) -> bytes:
    """Return a document with arrays as JSON. Numbers that are not finite become NaN, Infinity and -Infinity."""
    if all(np.isfinite(one).all() for one in arrays if one.dtype.kind == "f"):
        return orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)
    return json.dumps(document, default=_shortest).encode()


def quote(value: Any) -> str:
    """Return a value as JSON, cut short, for an error message."""
    try:
        text = orjson.dumps(value).decode()
    except (TypeError, ValueError, RecursionError):
        text = "a value"
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}..."


def value(name: str, output: Array) -> Any:
    """Return what JSON writes for an output; bytes are text, or base64 if the name of the output ends in `_bytes`."""
    if output.dtype.kind == "O":
        return _texts(name, output)
    if output.dtype.kind not in KINDS:
        raise invalid(f"output '{name}' has the type {output.dtype}, which JSON cannot express; use gRPC")
    if not output.ndim:
        return output[()]
    return output if output.flags.c_contiguous else output.copy()


def _texts(name: str, output: Array) -> Any:
    flat = output.ravel().tolist()
    try:
        texts = (
            [{"b64": base64.b64encode(one).decode()} for one in flat]
            if name.endswith("_bytes")
            else [one.decode() for one in flat]
        )
    except UnicodeDecodeError:
        raise invalid(
            f"output '{name}' has strings that are not UTF-8; give it a name that ends in _bytes, or use gRPC"
        ) from None
    result = np.empty(len(texts), np.object_)
    result[:] = texts
    return result.reshape(output.shape).tolist()


def _shortest(value: Any) -> Any:
    """Return an array as lists of numbers that are written with as few digits as its type needs."""
    found = np.asarray(value)
    return (found.astype(np.str_).astype(np.float64) if found.dtype.kind == "f" else found).tolist()


def _signature(signature: Signature) -> Document:
    return {
        "inputs": {name: _tensor(spec) for name, spec in signature.inputs.items()},
        "outputs": {name: _tensor(spec) for name, spec in signature.outputs.items()},
        "method_name": signature.method_name,
        "defaults": {name: _default(tensor) for name, tensor in signature.defaults.items()},
    }


def _tensor(spec: TensorSpec) -> Document:
    sizes = [] if spec.shape is None else [-1 if size is None else size for size in spec.shape]
    shape = {"dim": [{"size": str(size), "name": ""} for size in sizes], "unknown_rank": spec.shape is None}
    return {"dtype": spec.dtype, "tensor_shape": shape, "name": spec.name}


def _default(tensor: bytes) -> Any:
    message = protos.plain(protos.TensorProto).FromString(tensor)
    return json_format.MessageToDict(message, preserving_proto_field_name=True)


def _listed(names: Iterable[str]) -> str:
    return "{" + ",".join(sorted(names)) + "}"
