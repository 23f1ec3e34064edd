from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.golden import Wording
from support.serve.toy_models import HALF, ToyEngine, write_model
from tfjob.serve import inference_v2
from tfjob.serve.config import Batching, Loading, ModelConfig, Specific
from tfjob.serve.errors import Code, Status
from tfjob.serve.inference_v2 import InferRequest, infer_reply, read_request
from tfjob.serve.metrics import Metrics
from tfjob.serve.models import Models
from tfjob.serve.predict import Prediction, Predictor
from tfjob.serve.savedmodel import PREDICT, Signature, TensorSpec

TENSOR = {"name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2]}
TEXT = Signature(
    "text", PREDICT, {"s": TensorSpec("s:0", "DT_STRING", None)}, {"c": TensorSpec("c:0", "DT_COMPLEX64", ())}
)


@pytest.fixture
def predictor(tmp_path: Path) -> Predictor:
    """The models `half` (versions 1 and 2) and `empty`, which has no version."""
    for version in (1, 2):
        write_model(tmp_path / "half" / str(version), HALF, TEXT)
    write_model(tmp_path / "text" / "5", TEXT)
    metrics = Metrics()
    models = Models(Loading(poll_seconds=0, warmup=False), Batching(), metrics, load=lambda *_: ToyEngine())
    models.configure(
        [
            ModelConfig("half", tmp_path / "half", Specific((1, 2))),
            ModelConfig("text", tmp_path / "text"),
            ModelConfig("empty", tmp_path / "empty"),
        ]
    )
    return Predictor(models, metrics)


@pytest.mark.parametrize(
    ("path", "status", "expected"),
    [
        ("/v2/health/live", 200, {"live": True}),
        ("/v2/health/ready", 503, {"ready": False}),
        ("/v2/models/half/ready", 200, {"name": "half", "ready": True}),
        ("/v2/models/half/versions/1/ready", 200, {"name": "half", "ready": True}),
        ("/v2/models/half/versions/7/ready", 503, {"name": "half", "ready": False}),
        ("/v2/models/empty/ready", 503, {"name": "empty", "ready": False}),
        (
            "/v2/models/half",
            200,
            {
                "name": "half",
                "versions": ["2", "1"],
                "platform": "tensorflow_savedmodel",
                "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1]}],
                "outputs": [
                    {"name": "rows", "datatype": "INT64", "shape": [-1]},
                    {"name": "y", "datatype": "FP32", "shape": [-1]},
                ],
            },
        ),
        (
            "/v2/models/text/versions/5",
            200,
            {
                "name": "text",
                "versions": ["5"],
                "platform": "tensorflow_savedmodel",
                "inputs": [{"name": "s", "datatype": "BYTES", "shape": [-1]}],
                "outputs": [{"name": "c", "datatype": "DT_COMPLEX64", "shape": []}],
            },
        ),
        (
            "/v2/models",
            200,
            {
                "models": [
                    {"name": "empty", "versions": []},
                    {"name": "half", "versions": ["2", "1"]},
                    {"name": "text", "versions": ["5"]},
                ]
            },
        ),
    ],
)
def test_documents_describe_the_server_and_its_models(
    path: str, status: int, expected: Any, predictor: Predictor
) -> None:
    found = inference_v2.documents(predictor, ["empty has no version"], path)
    assert found is not None
    document, code = found
    for tensors in (document.get("inputs", []), document.get("outputs", [])):
        tensors.sort(key=lambda one: one["name"])
    assert (code, document) == (status, expected)


def test_the_server_has_a_name_and_a_version(predictor: Predictor) -> None:
    found = inference_v2.documents(predictor, [], "/v2")
    assert found is not None
    assert set(found[0]) == {"name", "version", "extensions"}


def test_a_version_may_have_any_number_of_digits(predictor: Predictor) -> None:
    found = inference_v2.documents(predictor, [], f"/v2/models/half/versions/{'9' * 5000}/ready")
    assert found == ({"name": "half", "ready": False}, 503)


@pytest.mark.parametrize("path", ["/v2/models/half/infer", "/v2/nothing", "/v2/models/half/versions/x"])
def test_other_routes_have_no_document(path: str, predictor: Predictor) -> None:
    assert inference_v2.documents(predictor, [], path) is None


@pytest.mark.parametrize("path", ["/v2/models/no", "/v2/models/no/ready", "/v2/models/half/versions/7"])
def test_an_unknown_model_is_not_found(path: str, predictor: Predictor) -> None:
    with pytest.raises(Status) as caught:
        inference_v2.documents(predictor, [], path)
    assert caught.value.code is Code.NOT_FOUND


def body(**changes: Any) -> bytes:
    return json.dumps({"inputs": [{**TENSOR, **changes}]}).encode()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, np.array([1, 2], np.float32)),
        ({"shape": [2, 1], "data": [[1], [2]]}, np.array([[1], [2]], np.float32)),
        ({"shape": [1, 2]}, np.array([[1, 2]], np.float32)),
        ({"shape": [0], "data": []}, np.array([], np.float32)),
        ({"shape": [], "data": 3}, np.array(3, np.float32)),
        ({"datatype": "INT64"}, np.array([1, 2], np.int64)),
        ({"datatype": "BOOL", "data": [True, False]}, np.array([True, False])),
        ({"datatype": "BYTES", "data": ["a", "\u00e4"]}, np.array([b"a", "\u00e4".encode()], object)),
        (
            {"datatype": "BYTES", "data": ["/w==", "YQ=="], "parameters": {"content_type": "base64"}},
            np.array([b"\xff", b"a"], object),
        ),
    ],
)
def test_tensors_become_arrays(changes: dict[str, Any], expected: Any) -> None:
    found = read_request(body(**changes)).inputs["x"]
    assert (found.dtype, found.shape, found.tolist()) == (expected.dtype, expected.shape, expected.tolist())


def test_a_request_may_name_outputs_and_a_signature() -> None:
    document = {"id": "7", "inputs": [TENSOR], "outputs": [{"name": "y"}], "parameters": {"signature_name": "s"}}
    request = read_request(json.dumps(document).encode())
    assert (request.id, request.signature, request.outputs) == ("7", "s", ["y"])


INVALID: list[bytes] = [
    b"",
    b"{}",
    b'{"inputs": []}',
    b'{"inputs": [1]}',
    body(name=1),
    body(datatype="FLOAT"),
    body(datatype=None),
    body(shape=[3]),
    body(shape=[-2]),
    body(shape=[1.0, 2]),
    body(shape=[1] * 40),
    body(data="x"),
    body(data=[[1], [2, 3]]),
    body(datatype="INT8", data=[1, 300]),
    body(datatype="BYTES", data=["?", "?"], parameters=inference_v2.BASE64),
    json.dumps({"inputs": [TENSOR, TENSOR]}).encode(),
    json.dumps({"inputs": [TENSOR], "outputs": ["y"]}).encode(),
    json.dumps({"inputs": [TENSOR], "outputs": {}}).encode(),
    json.dumps({"inputs": [TENSOR], "id": 1}).encode(),
    json.dumps({"inputs": [TENSOR], "parameters": {"signature_name": 1}}).encode(),
]


def test_an_invalid_request_is_an_error_that_names_the_place(wording: Wording) -> None:
    errors = []
    for text in INVALID:
        with pytest.raises(Status) as caught:
            read_request(text)
        assert caught.value.code is Code.INVALID_ARGUMENT
        errors.append(caught.value.message)
    wording(*errors)


def reply(request: InferRequest, **outputs: Any) -> Any:
    return json.loads(infer_reply(request, Prediction("m", 3, "serving_default", outputs)))


def test_a_reply_has_flat_data() -> None:
    request = InferRequest("7", "", {}, ["y"])
    outputs = {"y": np.array([[0.5, np.nan]], np.float32), "z": np.array([1])}
    found = reply(request, **outputs)
    assert str(found.pop("outputs")) == "[{'name': 'y', 'shape': [1, 2], 'datatype': 'FP32', 'data': [0.5, nan]}]"
    assert found == {"model_name": "m", "model_version": "3", "id": "7"}
    assert [one["name"] for one in reply(InferRequest("", "", {}, []), **outputs)["outputs"]] == ["y", "z"]


def test_strings_of_a_reply_are_text_or_base64() -> None:
    request = InferRequest("", "", {}, [])
    (text,) = reply(request, y=np.array([b"a"], object))["outputs"]
    assert text == {"name": "y", "shape": [1], "datatype": "BYTES", "data": ["a"]}
    (raw,) = reply(request, y=np.array([b"\xff"], object))["outputs"]
    assert (raw["parameters"], raw["data"]) == ({"content_type": "base64"}, ["/w=="])


def test_an_output_that_the_protocol_does_not_have_is_an_error() -> None:
    with pytest.raises(Status, match="complex64"):
        reply(InferRequest("", "", {}, []), y=np.array([1j], np.complex64))
