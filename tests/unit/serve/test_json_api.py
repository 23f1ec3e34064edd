from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from support.golden import Wording
from tfjob.serve import json_api, protos
from tfjob.serve.errors import Code, Status
from tfjob.serve.savedmodel import Signature, TensorSpec
from tfjob.serve.tensors import NAMES, NUMPY


def signature(defaults: dict[str, bytes] | None = None, **inputs: str) -> Signature:
    specs = {name: TensorSpec(f"{name}:0", f"DT_{dtype}", None) for name, dtype in inputs.items()}
    return Signature("serving_default", "tensorflow/serving/predict", specs, {}, defaults or {})


ONE = signature(x="FLOAT")
TWO = signature(x="FLOAT", n="INT32")
TEXT = signature(s="STRING")


def inputs(text: str, one: Signature = ONE) -> dict[str, Any]:
    """Return the inputs of a request as lists, which compare more easily than arrays."""
    found, _ = json_api.predict_inputs(json_api.parse(text.encode()), one)
    return {name: array.tolist() for name, array in found.items()}


@pytest.mark.parametrize(
    ("body", "one", "expected"),
    [
        ('{"instances": [1, 2.5]}', ONE, {"x": [1.0, 2.5]}),
        ('{"instances": [[1, 2], [3, 4]]}', ONE, {"x": [[1.0, 2.0], [3.0, 4.0]]}),
        ('{"instances": [{"x": 1}, {"x": 2}]}', ONE, {"x": [1.0, 2.0]}),
        ('{"instances": [{"x": [1], "n": 3}, {"n": 4, "x": [2]}]}', TWO, {"x": [[1.0], [2.0]], "n": [3, 4]}),
        ('{"instances": ["a", {"b64": "YQ=="}]}', TEXT, {"s": [b"a", b"a"]}),
        ('{"instances": [{"s": {"b64": "/w=="}}]}', TEXT, {"s": [b"\xff"]}),
        ('{"instances": ["\\u00e4"]}', TEXT, {"s": ["\u00e4".encode()]}),
        ('{"inputs": [1, 2]}', ONE, {"x": [1.0, 2.0]}),
        ('{"inputs": 1}', ONE, {"x": 1.0}),
        ('{"inputs": {"x": [[1]]}}', ONE, {"x": [[1.0]]}),
        ('{"inputs": {"x": [], "n": 7}}', TWO, {"x": [], "n": 7}),
        ('{"inputs": {"b64": "YQ=="}}', TEXT, {"s": b"a"}),
        ('{"instances": [NaN, -Infinity, Infinity]}', signature(x="DOUBLE"), {"x": ["nan", "-inf", "inf"]}),
        ('{"instances": [0.1]}', signature(x="HALF"), {"x": [float(np.float16(0.1))]}),
        ('{"instances": [true, false]}', signature(x="BOOL"), {"x": [True, False]}),
        ('{"instances": [255]}', signature(x="UINT8"), {"x": [255]}),
        ('{"instances": [-9223372036854775808]}', signature(x="INT64"), {"x": [-(1 << 63)]}),
        ('{"instances": [18446744073709551615]}', signature(x="UINT64"), {"x": [(1 << 64) - 1]}),
        ('{"inputs": {"x": 1}}', signature({"n": b""}, x="FLOAT", n="INT32"), {"x": 1.0}),
        ('{"signature_name": "other", "instances": [1]}', ONE, {"x": [1.0]}),
    ],
)
def test_requests_become_arrays(body: str, one: Signature, expected: dict[str, Any]) -> None:
    assert str(inputs(body, one)).replace("'", "") == str(expected).replace("'", "")


def test_rows_are_known_from_their_key() -> None:
    for body, has_rows in ((b'{"instances": [1]}', True), (b'{"inputs": [1]}', False)):
        assert json_api.predict_inputs(json_api.parse(body), ONE)[1] is has_rows


def test_arrays_have_the_type_of_the_input() -> None:
    for name, target in NUMPY.items():
        given = {"DT_STRING": ["a"], "DT_BOOL": [True]}.get(name, [1])
        if not name.startswith("DT_COMPLEX"):
            assert json_api.array(given, TensorSpec("x:0", name, None), "x").dtype == target


DEEP = 40
INVALID = [
    ("", ONE),
    ("  ", ONE),
    ("{", ONE),
    ('{"instances": [NaN}', ONE),
    ("[" * 100_000 + "NaN", ONE),
    ('{"signature_name": "\\ud800", "instances": [NaN]}', ONE),
    ('{"inputs": {"\\ud800": [1]}}', ONE),
    ("[1]", ONE),
    ("{}", ONE),
    ('{"signature_name": 1, "instances": [1]}', ONE),
    ('{"instances": [1], "inputs": [1]}', ONE),
    ('{"instances": 1}', ONE),
    ('{"instances": []}', ONE),
    ('{"instances": [1]}', TWO),
    ('{"inputs": [1]}', TWO),
    ('{"instances": [{"x": 1}, 2]}', ONE),
    ('{"instances": [{"x": 1, "n": 1}, {"x": 2}]}', TWO),
    ('{"instances": [{"x": 1}]}', TWO),
    ('{"instances": [{"x": 1, "n": 2, "z": 3}]}', TWO),
    ('{"inputs": {"y": 1}}', ONE),
    ('{"instances": [[1], [2, 3]]}', ONE),
    ('{"instances": [[[1], 2], [3]]}', ONE),
    ('{"instances": [[1], 2]}', ONE),
    ('{"instances": ' + "[" * DEEP + "1" + "]" * DEEP + "}", ONE),
    ('{"instances": ["a"]}', ONE),
    ('{"instances": [true]}', ONE),
    ('{"instances": [null]}', ONE),
    ('{"instances": [{"b64": "YQ=="}]}', ONE),
    ('{"instances": [1e39]}', ONE),
    ('{"instances": [1]}', signature(x="BOOL")),
    ('{"instances": [1.0]}', signature(x="INT32")),
    ('{"instances": [2147483648]}', signature(x="INT32")),
    ('{"instances": [-1]}', signature(x="UINT8")),
    ('{"instances": [18446744073709551616]}', signature(x="UINT64")),
    ('{"instances": [1]}', TEXT),
    ('{"instances": [{"b64": "?"}]}', TEXT),
    ('{"instances": [{"b64": "YQ==", "x": 1}]}', TEXT),
    ('{"instances": [1]}', signature(x="COMPLEX64")),
]


def test_an_invalid_request_is_an_error_that_names_the_place(wording: Wording) -> None:
    errors = []
    for text, one in INVALID:
        with pytest.raises(Status) as caught:
            inputs(text, one)
        assert caught.value.code is Code.INVALID_ARGUMENT
        errors.append(f"{text[:60]}  ->  {caught.value.message}")
    wording(*errors)


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just({"b64": "YQ=="}),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["x", "n", "b64"]), inner, max_size=2),
    max_leaves=8,
)
KEYS = st.sampled_from(["instances", "inputs", "examples", "context", "signature_name"])


@given(st.dictionaries(KEYS, VALUES, max_size=2), st.sampled_from([ONE, TWO, TEXT, signature(x="BOOL")]))
def test_any_document_is_read_or_rejected(document: dict[str, Any], one: Signature) -> None:
    body = json.dumps(document).encode()
    codes = set()
    for read in (lambda: json_api.predict_inputs(json_api.parse(body), one), lambda: json_api.examples(document)):
        try:
            read()
        except Status as status:
            codes.add(status.code)
    assert codes <= {Code.INVALID_ARGUMENT}


@given(arrays(st.sampled_from([np.float32, np.float64, np.int8, np.uint64]), array_shapes(max_dims=3, max_side=3)))
def test_numbers_survive_a_reply_and_a_request(array: Any) -> None:
    spec = TensorSpec("x:0", NAMES[array.dtype], None)
    (value,) = json_api.parse(json_api.predict_reply({"x": array}, True)).values()
    assert np.array_equal(json_api.array(value, spec, "x"), array, equal_nan=array.dtype.kind == "f")


def feature(example: bytes, name: str) -> list[Any]:
    found = protos.Example.FromString(example).features.feature[name]
    kind = found.WhichOneof("kind")
    return list(getattr(found, kind).value) if kind else []


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("[1, 2]", [1, 2]),
        ("1.5", [1.5]),
        ("[1, 2.5]", [1.0, 2.5]),
        ("NaN", [pytest.approx(float("nan"), nan_ok=True)]),
        ("1e300", [float("inf")]),
        ("true", [1]),
        ('"a"', [b"a"]),
        ('["a", {"b64": "/w=="}]', [b"a", b"\xff"]),
        ("[]", []),
    ],
)
def test_features_of_an_example_are_bytes_floats_or_integers(given: str, expected: list[Any]) -> None:
    (example,) = json_api.examples(json_api.parse(f'{{"examples": [{{"f": {given}}}]}}'.encode()))
    assert feature(example, "f") == expected


def test_the_context_is_part_of_each_example() -> None:
    document = json_api.parse(b'{"context": {"c": 1}, "examples": [{"a": 2}, {"a": 3}]}')
    found = json_api.examples(document)
    assert [(feature(example, "a"), feature(example, "c")) for example in found] == [([2], [1]), ([3], [1])]


INVALID_EXAMPLES = [
    "{}",
    '{"examples": []}',
    '{"examples": {}}',
    '{"examples": [1]}',
    '{"context": 1, "examples": [{}]}',
    '{"examples": [{"a": null}]}',
    '{"examples": [{"a": [[1]]}]}',
    '{"examples": [{"a": {"x": 1}}]}',
    '{"examples": [{"a": ["x", 1]}]}',
    '{"examples": [{"a": 9223372036854775808}]}',
    '{"examples": [{"a": {"b64": "?"}}]}',
]


def test_an_invalid_example_is_an_error_that_names_the_feature(wording: Wording) -> None:
    errors = []
    for text in INVALID_EXAMPLES:
        with pytest.raises(Status) as caught:
            json_api.examples(json_api.parse(text.encode()))
        assert caught.value.code is Code.INVALID_ARGUMENT
        errors.append(f"{text}  ->  {caught.value.message}")
    wording(*errors)


def floats(*values: float) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.array(values, np.float32)


def texts(*values: bytes) -> np.ndarray[Any, np.dtype[np.object_]]:
    return np.array(values, np.object_)


@pytest.mark.parametrize(
    ("outputs", "has_rows", "expected"),
    [
        ({"y": floats(0.1, 1)}, True, '{"predictions":[0.1,1.0]}'),
        ({"y": floats(0.1, 1)}, False, '{"outputs":[0.1,1.0]}'),
        ({"y": floats(1), "c": np.array([7])}, True, '{"predictions":[{"y":1.0,"c":7}]}'),
        ({"y": floats(1), "c": np.array([[7]])}, False, '{"outputs":{"y":[1.0],"c":[[7]]}}'),
        ({"y": np.float32(0.1).reshape(())}, False, '{"outputs":0.1}'),
        ({"y": floats(1, 2, 3, 4).reshape(2, 2).T}, True, '{"predictions":[[1.0,3.0],[2.0,4.0]]}'),
        ({"y": np.array([0.1], np.float16)}, True, '{"predictions":[0.099975586]}'),
        ({"y": np.array([True])}, True, '{"predictions":[true]}'),
        ({"y": np.array([(1 << 64) - 1], np.uint64)}, True, '{"predictions":[18446744073709551615]}'),
        ({"y": texts(b"a", "\u00e4".encode())}, True, '{"predictions":["a","\u00e4"]}'),
        ({"y_bytes": texts(b"\xff")}, True, '{"predictions":[{"b64":"/w=="}]}'),
        ({"y_bytes": texts(b"\xff").reshape(())}, False, '{"outputs":{"b64":"/w=="}}'),
        ({"y": floats()}, True, '{"predictions":[]}'),
    ],
)
def test_outputs_become_json(outputs: dict[str, Any], has_rows: bool, expected: str) -> None:
    assert json_api.predict_reply(outputs, has_rows).decode() == expected


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_numbers_that_are_not_finite_are_written(dtype: Any) -> None:
    outputs = {"y": np.array([[0.1, np.nan], [np.inf, -np.inf]], dtype), "n": np.array([1, 2], np.int8)}
    reply = json_api.predict_reply(outputs, True)
    assert reply.decode().count("NaN") == 1
    first, second = json.loads(reply)["predictions"]
    assert dtype(first["y"][0]) == dtype(0.1)
    assert second == {"y": [float("inf"), float("-inf")], "n": 2}
    assert b"0.1, NaN" in reply or dtype is np.float16


@pytest.mark.parametrize(
    ("outputs", "keyword"),
    [
        ({"y": floats(1), "z": floats(1, 2)}, "columnar"),
        ({"y": np.float32(1).reshape(())}, "columnar"),
        ({"y": texts(b"\xff")}, "_bytes"),
        ({"y": np.array([1j])}, "complex128"),
    ],
)
def test_outputs_that_json_cannot_express_are_errors(outputs: dict[str, Any], keyword: str) -> None:
    with pytest.raises(Status, match=keyword) as caught:
        json_api.predict_reply(outputs, True)
    assert caught.value.code is Code.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        (
            {"classes": texts(b"a", b"b").reshape(1, 2), "scores": floats(0.1, 0.9).reshape(1, 2)},
            [["a", 0.1], ["b", 0.9]],
        ),
        ({"classes": texts(b"a", b"b").reshape(1, 2)}, [["a", 0.0], ["b", 0.0]]),
        ({"scores": floats(0.1).reshape(1, 1)}, [["", 0.1]]),
    ],
)
def test_classes_are_pairs_of_label_and_score(outputs: dict[str, Any], expected: list[Any]) -> None:
    assert json.loads(json_api.classify_reply(outputs)) == {"results": [expected]}


def test_regressions_are_numbers() -> None:
    assert json_api.regress_reply({"outputs": floats(0.1, 2)}) == b'{"results":[0.1,2.0]}'


def test_an_error_may_quote_what_is_not_utf8() -> None:
    assert json_api.error_reply("model \udcff") == b'{"error":"model ?"}'


def test_the_status_has_versions_as_strings() -> None:
    reply = json_api.status_reply([(2, "AVAILABLE", Code.OK, ""), (1, "END", Code.NOT_FOUND, "gone")])
    assert json.loads(reply) == {
        "model_version_status": [
            {"version": "2", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}},
            {"version": "1", "state": "END", "status": {"error_code": "NOT_FOUND", "error_message": "gone"}},
        ]
    }


def test_the_metadata_has_every_field() -> None:
    default = protos.TensorProto(dtype=3, int_val=[5]).SerializeToString()
    found = Signature(
        "serving_default",
        "tensorflow/serving/predict",
        {"x": TensorSpec("x:0", "DT_FLOAT", (None, 784)), "n": TensorSpec("n:0", "DT_INT32", ())},
        {"y": TensorSpec("y:0", "DT_STRING", None)},
        {"n": default},
    )
    document = json.loads(json_api.metadata_reply("m", 3, {"serving_default": found}))
    assert document["model_spec"] == {"name": "m", "signature_name": "", "version": "3"}
    assert document["metadata"]["signature_def"]["signature_def"]["serving_default"] == {
        "inputs": {
            "x": {
                "dtype": "DT_FLOAT",
                "tensor_shape": {
                    "dim": [{"size": "-1", "name": ""}, {"size": "784", "name": ""}],
                    "unknown_rank": False,
                },
                "name": "x:0",
            },
            "n": {"dtype": "DT_INT32", "tensor_shape": {"dim": [], "unknown_rank": False}, "name": "n:0"},
        },
        "outputs": {"y": {"dtype": "DT_STRING", "tensor_shape": {"dim": [], "unknown_rank": True}, "name": "y:0"}},
        "method_name": "tensorflow/serving/predict",
        "defaults": {"n": {"dtype": "DT_INT32", "int_val": [5]}},
    }
