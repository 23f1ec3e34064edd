"""TensorProtos from and to arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tfjob.serve import protos, tensors
from tfjob.serve.errors import Code, Status
from tfjob.serve.tensors import NUMPY, Array, format_shape, to_array, to_proto

ARRAYS = st.sampled_from(sorted(name for name in NUMPY if name != "DT_STRING")).flatmap(
    lambda name: hnp.arrays(NUMPY[name], hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
)


def proto_of(text: dict[str, Any]) -> Any:
    """Make a TensorProto as a client sends it: with the public declaration."""
    plain = protos.plain(protos.TensorProto)(**text)
    return protos.TensorProto.FromString(plain.SerializeToString())


def shape(*sizes: int) -> dict[str, Any]:
    return {"dim": [{"size": size} for size in sizes]}


@given(ARRAYS, st.booleans())
def test_numbers_survive_the_way_there_and_back(array: Array, as_content: bool) -> None:
    proto = protos.TensorProto()
    to_proto(array, proto, as_content)
    back = to_array(protos.TensorProto.FromString(proto.SerializeToString()))
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert back.tobytes() == array.tobytes()


@given(st.lists(st.binary(max_size=5), min_size=4, max_size=4))
def test_strings_survive_the_way_there_and_back(values: list[bytes]) -> None:
    array = np.empty(4, object)
    array[:] = values
    proto = protos.TensorProto()
    to_proto(array.reshape(2, 2), proto)
    assert to_array(proto).tolist() == array.reshape(2, 2).tolist()


@pytest.mark.parametrize("name", sorted(NUMPY))
def test_a_client_reads_typed_values_with_the_public_declaration(name: str) -> None:
    dtype = NUMPY[name]
    array = np.array([b"a", b""], object) if dtype.hasobject else np.array([1, 0], dtype)
    proto = protos.TensorProto()
    to_proto(array, proto)
    public = protos.plain(protos.TensorProto).FromString(proto.SerializeToString())
    fields = [field.name for field, _ in public.ListFields()]
    assert "tensor_content" not in fields
    assert len(fields) == 3
    assert public.tensor_shape.dim[0].size == 2


def test_a_client_that_does_not_pack_its_floats_is_understood() -> None:
    packed = proto_of({"dtype": 1, "tensor_shape": shape(2), "float_val": [1.5, -2.0]}).SerializeToString()
    unpacked = (
        packed[: packed.index(b"\x2a")] + b"\x2d" + np.float32(1.5).tobytes() + b"\x2d" + np.float32(-2).tobytes()
    )
    assert to_array(protos.TensorProto.FromString(unpacked)).tolist() == [1.5, -2.0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ({"dtype": 1, "tensor_shape": shape(3), "float_val": [1, 2]}, [1, 2, 2]),
        ({"dtype": 1, "tensor_shape": shape(2), "float_val": [7]}, [7, 7]),
        ({"dtype": 3, "tensor_shape": shape(2)}, [0, 0]),
        ({"dtype": 7, "tensor_shape": shape(2), "string_val": [b"a"]}, [b"a", b"a"]),
        ({"dtype": 7, "tensor_shape": shape(1)}, [b""]),
        ({"dtype": 3, "tensor_shape": shape(), "int_val": [5]}, 5),
        ({"dtype": 4, "tensor_shape": shape(1), "int_val": [257]}, [1]),
        ({"dtype": 1, "tensor_shape": shape(0)}, []),
        ({"dtype": 19, "tensor_shape": shape(1), "half_val": [0x3C00]}, [1.0]),
        ({"dtype": 8, "tensor_shape": shape(1), "scomplex_val": [1, 2]}, [1 + 2j]),
    ],
)
def test_values_are_read_as_tensorflow_reads_them(text: dict[str, Any], expected: object) -> None:
    assert to_array(proto_of(text)).tolist() == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ({"dtype": 1, "tensor_shape": shape(1), "float_val": [1, 2]}, "2 values"),
        ({"dtype": 1, "tensor_shape": shape(2), "tensor_content": b"1234567"}, "7 bytes"),
        ({"dtype": 1, "tensor_shape": shape(-1), "float_val": [1]}, "known shape"),
        ({"dtype": 1, "tensor_shape": {"unknown_rank": True}}, "known shape"),
        ({"dtype": 1, "tensor_shape": shape(1 << 40), "float_val": [1]}, "only 1 values"),
        ({"dtype": 1, "tensor_shape": shape(1 << 62, 1 << 62), "float_val": [1]}, "only 1 values"),
        ({"dtype": 14, "tensor_shape": shape(1)}, "DT_BFLOAT16"),
        ({"dtype": 0}, "DT_INVALID"),
        ({"dtype": 999}, "999"),
        ({"dtype": 8, "tensor_shape": shape(1), "scomplex_val": [1]}, "imaginary"),
    ],
)
def test_a_contradictory_tensor_is_invalid(text: dict[str, Any], words: str) -> None:
    with pytest.raises(Status, match=words) as caught:
        to_array(proto_of(text))
    assert caught.value.code is Code.INVALID_ARGUMENT


def test_a_field_that_ends_in_the_middle_of_a_number_is_invalid() -> None:
    proto = protos.TensorProto(dtype=1, tensor_shape=shape(1), float_val=[b"123"])
    with pytest.raises(Status, match="multiple of 4"):
        to_array(proto)


@pytest.mark.parametrize(
    ("given", "expected"), [((), "[]"), ((None, 28), "[?,28]"), (None, "any shape"), ((3,), "[3]")]
)
def test_shapes_are_written_as_people_read_them(given: tuple[int | None, ...] | None, expected: str) -> None:
    assert format_shape(given) == expected


def test_every_numpy_type_has_one_name() -> None:
    assert len(tensors.NAMES) == len(NUMPY)
