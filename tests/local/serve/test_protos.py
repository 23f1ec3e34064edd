"""Our messages are those of TensorFlow and TensorFlow Serving, as far as they go."""

from __future__ import annotations

import importlib
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pool

from support.serve.public import stubs
from tfjob.serve import protos
from tfjob.serve.errors import Code, Status

SET = Path(protos.__file__).parent / "messages.binpb"
MODULES = (
    "tensorflow.core.protobuf.saved_model_pb2",
    "tensorflow_serving.apis.model_service_pb2",
    "tensorflow_serving.apis.prediction_service_pb2",
)
OURS_ALONE = {
    "tensorflow.serving.BatchingParameters",
    "tensorflow.serving.MonitoringConfig",
    "tensorflow.serving.PrometheusConfig",
    "tensorflow.serving.SSLConfig",
    "tensorflow.serving.PredictStreamedLog",
}
"""Messages that the public client does not contain."""


@pytest.fixture(scope="module")
def public() -> Any:
    """The pool of everyone, with all messages of TensorFlow and of the public client."""
    stubs()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in MODULES:
            importlib.import_module(name)
    return descriptor_pool.Default()


def messages() -> list[Any]:
    """Return the descriptors of all messages with fields."""
    found = []
    for name in ("tensorflow.proto", "serving.proto", "config.proto"):
        waiting = list(protos.PLAIN.FindFileByName(name).message_types_by_name.values())
        while waiting:
            message = waiting.pop()
            waiting.extend(message.nested_types)
            found.append(message)
    return found


def test_fields_have_the_public_names_numbers_and_types(public: Any) -> None:
    compared = 0
    for message in messages():
        if message.full_name in OURS_ALONE:
            continue
        original = public.FindMessageTypeByName(message.full_name)
        for field in message.fields:
            other = original.fields_by_name[field.name]
            assert describe(field) == describe(other), field.full_name
            compared += 1
    assert compared > 150


def describe(field: Any) -> tuple[Any, ...]:
    kind = field.message_type or field.enum_type
    oneof = field.containing_oneof
    return (
        field.number,
        field.json_name,  # that grpcurl prints
        field.type,
        field.is_repeated,
        kind.full_name.removesuffix("Log") if kind else None,
        oneof.name if oneof else None,
    )


@pytest.mark.parametrize("name", ["tensorflow.DataType", "tensorflow.error.Code", "tensorflow.serving.ModelType"])
def test_enums_have_the_public_names_and_numbers(name: str, public: Any) -> None:
    original = public.FindEnumTypeByName(name).values_by_name
    for value in protos.PLAIN.FindEnumTypeByName(name).values:
        assert original[value.name].number == value.number


@pytest.mark.parametrize("name", ["PredictionService", "ModelService"])
def test_services_have_the_public_methods(name: str, public: Any) -> None:
    original = public.FindServiceByName(f"tensorflow.serving.{name}")
    for method in protos.PLAIN.FindServiceByName(f"tensorflow.serving.{name}").methods:
        other = original.methods_by_name[method.name]
        assert method.input_type.full_name == other.input_type.full_name
        assert method.output_type.full_name == other.output_type.full_name


def test_the_descriptor_set_is_compiled_from_its_sources(tmp_path: Path) -> None:
    target = tmp_path / "messages.binpb"
    imports = "import sys, pathlib; sys.path.insert(0, 'tools'); import protos"
    program = f"{imports}; protos.compile_to(pathlib.Path({str(target)!r}))"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[3])
    assert target.read_bytes() == SET.read_bytes(), "run tools/protos.py"


def test_bytes_that_are_no_message_are_invalid() -> None:
    with pytest.raises(Status, match="PredictRequest") as caught:
        protos.parse(protos.PredictRequest, b"\xff")
    assert caught.value.code is Code.INVALID_ARGUMENT
