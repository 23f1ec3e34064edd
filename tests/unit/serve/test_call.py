"""Checks of a call against its signature: TensorFlow Serving's codes and texts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from support.serve.toy_models import HALF, ToyEngine
from tfjob.serve import call, protos
from tfjob.serve.errors import Code, Status
from tfjob.serve.savedmodel import CLASSIFY, PREDICT, REGRESS, Signature, TensorSpec
from tfjob.serve.tensors import Array

EXAMPLES = {"inputs": TensorSpec("e:0", "DT_STRING", (None,))}
CLASSES, SCORES = TensorSpec("c:0", "DT_STRING", (None, 2)), TensorSpec("s:0", "DT_FLOAT", (None, 2))
CLASSIFIER = Signature("classify", CLASSIFY, EXAMPLES, {"classes": CLASSES, "scores": SCORES})
REGRESSOR = Signature("regress", REGRESS, EXAMPLES, {"outputs": TensorSpec("o:0", "DT_FLOAT", (None, 1))})
IMAGES = Signature(
    "images",
    PREDICT,
    {"image": TensorSpec("i:0", "DT_UINT8", (None, 28, 28)), "free": TensorSpec("f:0", "DT_FLOAT", None)},
    {"a": TensorSpec("a:0", "DT_FLOAT", (None,)), "b": TensorSpec("b:0", "DT_FLOAT", (None,))},
    {"free": protos.TensorProto(dtype=1, float_val=[np.float32(7).tobytes()]).SerializeToString()},
)
IMAGE, FREE = np.zeros((2, 28, 28), np.uint8), np.zeros((), np.float32)


def strings(*values: bytes, shape: tuple[int, ...] | None = None) -> Array:
    array = np.empty(len(values), object)
    array[:] = values
    return array if shape is None else array.reshape(shape)


def test_inputs_that_suit_become_a_call() -> None:
    one = call.predict(IMAGES, {"image": IMAGE, "free": FREE}, ["b"])
    assert one.outputs == ("b",)
    assert one.rows == 2
    assert call.predict(IMAGES, {"image": IMAGE, "free": FREE}).outputs == ("a", "b")


def test_a_call_has_the_order_of_the_signature() -> None:
    one = call.predict(IMAGES, {"free": FREE, "image": IMAGE}, ["b", "a"])
    assert (list(one.inputs), one.outputs) == (["image", "free"], ("a", "b"))


def test_an_input_with_a_default_may_be_omitted() -> None:
    one = call.predict(IMAGES, {"image": IMAGE})
    assert one.inputs["free"] == np.float32(7)


def test_a_call_runs_under_the_names_of_the_graph() -> None:
    outputs = call.run(ToyEngine(), call.predict(HALF, {"x": np.array([3], np.float32)}, ["y"]))
    assert {alias: array.tolist() for alias, array in outputs.items()} == {"y": [1.5]}


@pytest.mark.parametrize(
    ("inputs", "text"),
    [
        (
            {"image": IMAGE, "x": FREE, "free": FREE},
            "input size does not match signature: 3!=2 len({free,image,x}) != len({free,image}). "
            "Sent extra: {x}. Missing but required: {}.",
        ),
        (
            {},
            "input size does not match signature: 0!=2 len({}) != len({free,image}). "
            "Sent extra: {}. Missing but required: {image}.",
        ),
        ({"image": FREE}, 'The input "image" must have the type DT_UINT8, not DT_FLOAT.'),
        ({"image": IMAGE[0]}, 'The input "image" must have the shape [?,28,28], not [28,28].'),
        ({"image": IMAGE[:, :3]}, 'The input "image" must have the shape [?,28,28], not [2,3,28].'),
    ],
)
def test_inputs_that_do_not_suit_are_invalid(inputs: Mapping[str, Array], text: str) -> None:
    with pytest.raises(Status) as caught:
        call.predict(IMAGES, inputs)
    assert caught.value.code is Code.INVALID_ARGUMENT
    assert caught.value.message == text


@pytest.mark.parametrize(("output_filter", "words"), [(["c"], "set {a,b}"), (["a", "a"], "duplicate output")])
def test_unknown_and_duplicate_outputs_are_invalid(output_filter: list[str], words: str) -> None:
    with pytest.raises(Status, match=words):
        call.predict(IMAGES, {"image": IMAGE}, output_filter)


@pytest.mark.parametrize(
    ("signature", "expected"), [(HALF, True), (CLASSIFIER, True), (IMAGES, False), (REGRESSOR, True)]
)
def test_calls_share_runs_only_if_everything_has_rows(signature: Signature, expected: bool) -> None:
    assert call.has_batches(signature) is expected


def test_a_signature_with_a_fixed_output_does_not_share_runs() -> None:
    outputs = {**HALF.outputs, "version": TensorSpec("v:0", "DT_INT64", ())}
    assert not call.has_batches(Signature("s", PREDICT, HALF.inputs, outputs))


def test_examples_are_the_only_input_of_a_classification() -> None:
    assert call.classify(CLASSIFIER, [b"a", b"b"]).inputs["inputs"].tolist() == [b"a", b"b"]
    assert call.infer(REGRESSOR, REGRESS, [b"a"]).outputs == ("outputs",)


@pytest.mark.parametrize(
    ("method", "signature", "examples", "code", "words"),
    [
        (CLASSIFY, CLASSIFIER, [], Code.INVALID_ARGUMENT, "Input is empty"),
        (CLASSIFY, REGRESSOR, [b""], Code.INVALID_ARGUMENT, "classes or scores"),
        (REGRESS, CLASSIFIER, [b""], Code.INVALID_ARGUMENT, "contain outputs"),
        (PREDICT, CLASSIFIER, [b""], Code.UNIMPLEMENTED, "method_name"),
        (
            REGRESS,
            Signature("r", REGRESS, HALF.inputs, REGRESSOR.outputs),
            [b""],
            Code.INVALID_ARGUMENT,
            "alias inputs",
        ),
    ],
)
def test_signatures_that_cannot_classify_or_regress_are_errors(
    method: str, signature: Signature, examples: list[bytes], code: Code, words: str
) -> None:
    with pytest.raises(Status, match=words) as caught:
        call.infer(signature, method, examples)
    assert caught.value.code is code


def test_the_method_of_a_signature_is_checked_on_request() -> None:
    call.check_method(CLASSIFIER, CLASSIFY)
    with pytest.raises(Status, match="Expected regression signature method_name"):
        call.check_method(CLASSIFIER, REGRESS)


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        ({"scores": np.zeros((2, 3), np.float32)}, ""),
        ({"classes": strings(b"a", b"b", shape=(2, 1))}, ""),
        ({"scores": np.zeros((1, 3), np.float32)}, "scores must have the shape"),
        ({"scores": np.zeros(2, np.float32)}, "scores must have the shape"),
        ({"scores": np.zeros((2, 3), np.int64)}, "DT_INT64"),
        ({"scores": np.zeros((2, 3), np.float32), "classes": strings(b"a", b"b", shape=(2, 1))}, "same shape"),
    ],
)
def test_the_result_of_a_classification_is_checked(outputs: Mapping[str, Array], words: str) -> None:
    if not words:
        call.check_classification(outputs, 2)
        return
    with pytest.raises(Status, match=words):
        call.check_classification(outputs, 2)


@pytest.mark.parametrize("shape", [(2,), (2, 1)])
def test_the_result_of_a_regression_has_one_value_for_each_example(shape: tuple[int, ...]) -> None:
    assert call.check_regression({"outputs": np.ones(shape, np.float32)}, 2).shape == (2,)
    with pytest.raises(Status, match=r"\[3\] or \[3,1\]"):
        call.check_regression({"outputs": np.ones(shape, np.float32)}, 3)
