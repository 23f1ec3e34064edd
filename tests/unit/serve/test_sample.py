from __future__ import annotations

import json
import subprocess
import sys

import pytest

from support.golden import Wording
from support.serve.signatures import DIGITS, signature
from tfjob.serve.sample import curl, has_unknown_sizes, sample_inputs
from tfjob.serve.savedmodel import CLASSIFY, Signature

SPIRAL = signature({"points": ("FLOAT", (None, 2))}, {"outputs": ("FLOAT", (None, 5))})
CASES = {
    "one input": SPIRAL,
    "a long input": DIGITS,
    "another signature": signature({"x": ("INT32", (None,))}, {}, name="predict"),
    "several inputs": signature({"a": ("STRING", (None,)), "b": ("BOOL", (None, 2))}, {}),
    "a long and a boolean input": signature({"a": ("DOUBLE", (None, 40)), "b": ("BOOL", (None, 1))}, {}),
    "a fixed batch": signature({"x": ("FLOAT", (1, 2))}, {}),
    "a scalar": signature({"x": ("FLOAT", ())}, {}),
    "any shape": signature({"x": ("FLOAT", None)}, {}),
    "classification": signature({"inputs": ("STRING", (None,))}, {}, method=CLASSIFY),
}


def test_the_command_sends_one_example(wording: Wording) -> None:
    wording(*(f"{name}: {curl(one, 'model')}" for name, one in CASES.items()))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_body_of_the_command_is_json_with_the_sizes_of_the_signature(case: Signature) -> None:
    command = curl(case, "model").replace("curl -d @-", "tail -n 1 #").replace("curl -d", "printf '%s\\n'")
    command = command.replace("python3", sys.executable).partition(" http:")[0]
    body = json.loads(subprocess.run(["sh", "-c", command], capture_output=True, check=True, text=True).stdout)
    assert body.get("signature_name", "serving_default") == case.name
    if case is DIGITS:
        assert [len(body["instances"]), len(body["instances"][0]), len(body["instances"][0][27])] == [1, 28, 28]


@pytest.mark.parametrize(
    ("case", "shapes", "is_unknown"),
    [
        (DIGITS, {"images": (1, 28, 28)}, False),
        (CASES["several inputs"], {"a": (1,), "b": (1, 2)}, True),
        (CASES["any shape"], {"x": ()}, True),
        (signature({"x": ("FLOAT", (None, None, 3))}, {}), {"x": (1, 1, 3)}, True),
        (signature({"x": ("RESOURCE", ())}, {}), {}, False),
    ],
)
def test_sample_inputs_have_the_sizes_of_the_signature(
    case: Signature, shapes: dict[str, tuple[int, ...]], is_unknown: bool
) -> None:
    assert {alias: array.shape for alias, array in sample_inputs(case).items()} == shapes
    assert has_unknown_sizes(case) is is_unknown


def test_inputs_with_a_default_are_left_out() -> None:
    one = signature({"x": ("FLOAT", (None, 1)), "rate": ("FLOAT", ())}, {})
    case = Signature(one.name, one.method_name, one.inputs, one.outputs, {"rate": b""})
    assert list(sample_inputs(case)) == ["x"]
    assert "rate" not in curl(case, "model")
