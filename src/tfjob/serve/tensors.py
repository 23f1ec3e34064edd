"""TensorProtos from and to numpy arrays. Strings are arrays of objects: bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfjob.serve import protos
from tfjob.serve.errors import invalid

Array = NDArray[Any]

STRING = "DT_STRING"
NUMPY: dict[str, np.dtype[Any]] = {
    "DT_FLOAT": np.dtype(np.float32),
    "DT_DOUBLE": np.dtype(np.float64),
    "DT_INT32": np.dtype(np.int32),
    "DT_UINT8": np.dtype(np.uint8),
    "DT_INT16": np.dtype(np.int16),
    "DT_INT8": np.dtype(np.int8),
    "DT_STRING": np.dtype(object),
    "DT_COMPLEX64": np.dtype(np.complex64),
    "DT_INT64": np.dtype(np.int64),
    "DT_BOOL": np.dtype(np.bool_),
    "DT_UINT16": np.dtype(np.uint16),
    "DT_COMPLEX128": np.dtype(np.complex128),
    "DT_HALF": np.dtype(np.float16),
    "DT_UINT32": np.dtype(np.uint32),
    "DT_UINT64": np.dtype(np.uint64),
}
"""The types of tensors that the server can pass on, by their names in TensorFlow."""
NAMES = {dtype: name for name, dtype in NUMPY.items()}
_BY_NUMBER = {protos.DATA_TYPES[name]: dtype for name, dtype in NUMPY.items()}
_FIELDS = {
    "DT_FLOAT": "float_val",
    "DT_DOUBLE": "double_val",
    "DT_STRING": "string_val",
    "DT_COMPLEX64": "scomplex_val",
    "DT_INT64": "int64_val",
    "DT_BOOL": "bool_val",
    "DT_COMPLEX128": "dcomplex_val",
    "DT_HALF": "half_val",
    "DT_UINT32": "uint32_val",
    "DT_UINT64": "uint64_val",
}
_FIELD_OF = {dtype: _FIELDS.get(name, "int_val") for name, dtype in NUMPY.items()}
_PARTS: dict[np.dtype[Any], np.dtype[Any]] = {
    np.dtype(np.complex64): np.dtype(np.float32),
    np.dtype(np.complex128): np.dtype(np.float64),
}
_ON_THE_WIRE: dict[np.dtype[Any], np.dtype[Any]] = {np.dtype(np.float16): np.dtype(np.uint16), **_PARTS}
"""Types whose values travel as those of another type with the same bits."""
LARGEST_FILL = 64 << 20
"""Bytes of a tensor that has fewer values than elements: a few bytes of a request must not become gigabytes."""


def to_array(proto: Any) -> Array:
    """Return the values of a TensorProto; raise Status if it contradicts itself or its type is not supported."""
    dtype = _BY_NUMBER.get(proto.dtype)
    if dtype is None:
        raise invalid(f"The type {protos.DATA_TYPE_NAMES.get(proto.dtype, proto.dtype)} is not supported.")
    shape = tuple(dim.size for dim in proto.tensor_shape.dim)
    if proto.tensor_shape.unknown_rank or any(size < 0 for size in shape):
        raise invalid(f"A tensor must have a known shape, not {format_shape(shape)}.")
    content = proto.tensor_content
    if content and not dtype.hasobject:
        if len(content) != math.prod(shape) * dtype.itemsize:
            expected = math.prod(shape) * dtype.itemsize
            raise invalid(
                f"tensor_content has {len(content)} bytes, but {NAMES[dtype]} with the shape {format_shape(shape)} "
                f"needs {expected}."
            )
        return np.frombuffer(content, dtype).reshape(shape)
    values = _values(proto, dtype)
    count = math.prod(shape)
    if len(values) < count and _FIELD_OF[dtype] in protos.AS_BYTES:
        # A client that does not pack its numbers: they are not in the field that is declared as bytes.
        values = _values(protos.plain(protos.TensorProto).FromString(proto.SerializeToString()), dtype)
    if len(values) != count:
        values = _filled(values, count, shape)
    return values.reshape(shape)


def to_proto(array: Array, proto: Any, as_content: bool = False) -> None:
    """Fill a TensorProto, with typed values or with bytes; clients that read `float_val` need typed values."""
    name = NAMES[array.dtype]
    proto.dtype = protos.DATA_TYPES[name]
    dims = proto.tensor_shape.dim
    for size in array.shape:
        dims.add().size = size
    if array.dtype.hasobject:
        proto.string_val.extend(array.ravel().tolist())
    elif as_content:
        proto.tensor_content = array.tobytes()
    elif array.size:
        field = getattr(proto, _FIELD_OF[array.dtype])
        if _FIELD_OF[array.dtype] in protos.AS_BYTES:
            field.append(array.tobytes())
        else:
            field.extend(np.ravel(array).view(_ON_THE_WIRE.get(array.dtype, array.dtype)).tolist())


def format_shape(shape: Sequence[int | None] | None) -> str:
    """Return a shape as people read it, `[?,28,28]`; `any shape` for an unknown rank."""
    return "any shape" if shape is None else f"[{','.join('?' if size is None else str(size) for size in shape)}]"


def _values(proto: Any, dtype: np.dtype[Any]) -> Array:
    name = _FIELD_OF[dtype]
    field = getattr(proto, name)
    if dtype.hasobject:
        return _objects(field)
    if name in protos.AS_BYTES and (not field or isinstance(field[0], bytes)):
        packed = field[0] if len(field) == 1 else b"".join(field)
        if len(packed) % dtype.itemsize:
            raise invalid(f"{name} has {len(packed)} bytes, which is not a multiple of {dtype.itemsize}.")
        return np.frombuffer(packed, dtype)
    if dtype in _PARTS:
        if len(field) % 2:
            raise invalid(f"{name} has {len(field)} numbers: the imaginary part of the last one is missing.")
        return np.array(field, _PARTS[dtype]).view(dtype)
    if dtype == np.float16:
        return np.array(field, np.int32).astype(np.uint16).view(dtype)
    if name == "int_val":
        return np.array(field, np.int32).astype(dtype)  # bits that do not fit are cut off, as TensorFlow does
    return np.array(field, dtype)


def _objects(values: Sequence[bytes]) -> Array:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _filled(values: Array, count: int, shape: tuple[int, ...]) -> Array:
    """Repeat the last value until there are enough, or fill with zeros if there is none, as TensorFlow does."""
    if len(values) > count:
        raise invalid(f"A tensor has {len(values)} values, but the shape {format_shape(shape)} needs {count}.")
    if count * values.dtype.itemsize > LARGEST_FILL:
        raise invalid(f"A tensor with the shape {format_shape(shape)} has only {len(values)} values.")
    array = np.empty(count, values.dtype)
    array[: len(values)] = values
    empty: Any = b"" if values.dtype.hasobject else 0
    array[len(values) :] = values[-1] if len(values) else empty
    return array
