"""The gRPC server as a process, asked by TensorFlow Serving's public client."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from google.protobuf import descriptor_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from support.serve.public import Client
from support.serve.server_process import ServerProcess
from tfjob.serve import protos

PREDICT = "/tensorflow.serving.PredictionService/Predict"
LABELS = 'version_labels { key: "stable" value: 1 } version_labels { key: "canary" value: 2 }'


@pytest.fixture(scope="module")
def models(saved_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all models; `defaults` is `half` with a default for an input."""
    folder = tmp_path_factory.mktemp("models")
    for name in ("half", "gate", "digits"):
        (folder / name).symlink_to(saved_models / name)
    graph = shutil.copytree(saved_models / "half/1", folder / "defaults/1") / "saved_model.pb"
    content = protos.SavedModel.FromString(graph.read_bytes())
    default = content.meta_graphs[0].signature_def["two_inputs"].defaults["b"]
    default.dtype = protos.DATA_TYPES["DT_INT64"]
    default.tensor_shape.dim.add().size = 1
    default.int64_val.append(100)
    graph.write_bytes(content.SerializeToString())
    return folder


@pytest.fixture(scope="module")
def server(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("server")
    configs = [
        f'config {{ name: "{name}" base_path: "{models / name}" model_platform: "tensorflow" {more} }}'
        for name, more in (
            ("half", f"model_version_policy {{ all {{}} }} {LABELS}"),
            ("gate", ""),
            ("digits", ""),
            ("defaults", ""),
        )
    ]
    (folder / "models.config").write_text(f"model_config_list {{ {' '.join(configs)} }}")
    with ServerProcess(folder, f"--model_config_file={folder / 'models.config'}") as process:
        yield process


@pytest.fixture(scope="module")
def client(server: ServerProcess) -> Iterator[Client]:
    made = Client(server.port)
    with made.channel:
        yield made


def fails(call: Callable[[], object]) -> tuple[str, str]:
    """Return the code and the text of a call's error."""
    with pytest.raises(grpc.RpcError) as caught:
        call()
    error: Any = caught.value
    return error.code().name, error.details()


# --- Predict ---


@pytest.mark.parametrize(
    ("choice", "version"), [({}, 3), ({"version": {"value": 2}}, 2), ({"version_label": "stable"}, 1)]
)
def test_a_version_or_label_or_the_newest_answers(choice: dict[str, Any], version: int, client: Client) -> None:
    request = client.predict_request("half", x=np.array([2, 4], np.float32))
    request.model_spec.MergeFrom(type(request.model_spec)(**choice))
    reply = client.prediction.Predict(request, timeout=60)
    assert reply.outputs["y"].float_val == [1 + version, 2 + version]
    spec = reply.model_spec
    assert (spec.name, spec.version.value, spec.signature_name) == ("half", version, "serving_default")


def test_only_the_outputs_that_are_asked_for_are_sent(client: Client) -> None:
    request = client.predict_request("half", x=np.array([2], np.float32))
    request.output_filter.append("offset")
    assert list(client.prediction.Predict(request, timeout=60).outputs) == ["offset"]


def test_every_type_passes_unchanged(client: Client) -> None:
    names = "float32 float64 float16 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool complex64 complex128"
    inputs: dict[str, Any] = {name: np.array([1, 0, 1], name) for name in names.split()}
    inputs["string"] = np.array([b"", b"\xff\0", b"long " * 100], object)
    outputs = client.predict("half", "every_type", **inputs)
    assert outputs.keys() == {f"{name}_out" for name in inputs}
    for name, array in inputs.items():
        assert outputs[f"{name}_out"].tolist() == array.tolist()
        assert outputs[f"{name}_out"].dtype == array.dtype


def test_scalars_and_strings(client: Client) -> None:
    outputs = client.predict("half", "strings", suffix=b"!", words=[b"a", b"bcd"])
    assert outputs["joined"].tolist() == [b"a!", b"bcd!"]
    assert outputs["lengths"].tolist() == [1, 3]
    assert outputs["suffix_bytes"].shape == ()


def test_an_input_with_a_default_may_be_omitted(client: Client) -> None:
    a = np.array([[1, 2]], np.float32)
    assert client.predict("defaults", "two_inputs", a=a)["sum"] == [103]
    assert client.predict("defaults", "two_inputs", a=a, b=np.array([1]))["sum"] == [4]


def test_a_large_message_passes_both_ways(client: Client) -> None:
    """Larger than 4 MB, which grpcio would reject."""
    x = np.arange(2_000_000, dtype=np.float32)
    assert np.array_equal(client.predict("half", x=x)["y"], x / 2 + 3)


def test_concurrent_requests_get_their_own_answers(client: Client) -> None:
    def ask(number: int) -> bool:
        outputs = client.predict("half", x=np.array([number] * (number % 4 + 1), np.float32))
        return bool(outputs["y"].tolist() == [number / 2 + 3] * (number % 4 + 1))

    answers: list[bool] = []
    threads = [
        threading.Thread(target=lambda first=first: answers.extend(ask(first + one) for one in range(50)))
        for first in range(0, 400, 50)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [True] * 400


def test_a_bad_request_does_not_fail_its_neighbours(client: Client) -> None:
    outcomes: list[object] = []

    def ask(index: int) -> None:
        for _ in range(50):
            request = client.predict_request("half", "pick", index=np.array([index], np.int32))
            try:
                outcomes.append(client.prediction.Predict(request, timeout=60).outputs["picked"].int_val[0])
            except grpc.RpcError as error:
                outcomes.append(error.code().name)

    threads = [threading.Thread(target=ask, args=[index]) for index in (0, 1, 2, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, outcomes)) == ["10"] * 50 + ["20"] * 50 + ["30"] * 50 + ["INVALID_ARGUMENT"] * 50


@pytest.mark.parametrize(
    ("model", "signature", "inputs", "code", "text"),
    [
        ("other", "", {}, "NOT_FOUND", "Servable not found for request: Latest(other)"),
        ("", "", {}, "INVALID_ARGUMENT", "ModelSpec has no name specified."),
        ("half", "x", {}, "FAILED_PRECONDITION", 'Serving signature key "x" not found.'),
        ("half", "__saved_model_init_op", {}, "FAILED_PRECONDITION", "not found"),
        ("half", "", {}, "INVALID_ARGUMENT", "Missing but required: {x}."),
        ("half", "", {"x": [1.0], "z": [1.0]}, "INVALID_ARGUMENT", "Sent extra: {z}. Missing but required: {}."),
        ("half", "", {"x": [1]}, "INVALID_ARGUMENT", '"x" must have the type DT_FLOAT, not DT_INT32'),
        ("half", "", {"x": [[1.0]]}, "INVALID_ARGUMENT", '"x" must have the shape [?], not [1,1]'),
        ("half", "two_inputs", {"a": [[1.0, 2.0]], "b": [1]}, "INVALID_ARGUMENT", '"b" must have the type DT_INT64'),
        ("half", "pick", {"index": [7]}, "INVALID_ARGUMENT", "= 7 is not in [0, 3)"),
        ("gate", "", {"path": b"/no/such/file"}, "NOT_FOUND", "/no/such/file"),
    ],
)
def test_bad_input_has_its_code_and_text(
    model: str, signature: str, inputs: dict[str, Any], code: str, text: str, client: Client
) -> None:
    found = fails(lambda: client.prediction.Predict(client.predict_request(model, signature, **inputs), timeout=60))
    assert found[0] == code
    assert text in found[1]


@pytest.mark.parametrize(
    ("choice", "code", "text"),
    [
        ({"version": {"value": 7}}, "NOT_FOUND", "Servable not found for request: Specific(half, 7)"),
        ({"version_label": "x"}, "INVALID_ARGUMENT", "Unrecognized servable version label: x"),
    ],
)
def test_an_unknown_version_or_label_is_an_error(choice: dict[str, Any], code: str, text: str, client: Client) -> None:
    request = client.predict_request("half", x=[1.0])
    request.model_spec.MergeFrom(type(request.model_spec)(**choice))
    assert fails(lambda: client.prediction.Predict(request, timeout=60)) == (code, text)


def test_a_request_without_a_spec_is_an_error(client: Client) -> None:
    request = client.public.PredictRequest()
    assert fails(lambda: client.prediction.Predict(request, timeout=60)) == ("INVALID_ARGUMENT", "Missing ModelSpec")


def test_outputs_that_do_not_exist_are_an_error(client: Client) -> None:
    request = client.predict_request("half", x=[1.0])
    request.output_filter.append("z")
    code, text = fails(lambda: client.prediction.Predict(request, timeout=60))
    assert (code, text) == (
        "INVALID_ARGUMENT",
        "output tensor alias not found in signature: z Outputs expected to be in the set {offset,y}.",
    )


# --- Classify, Regress, MultiInference ---


def test_classify_with_and_without_context(client: Client) -> None:
    request = client.public.ClassificationRequest()
    request.model_spec.name, request.model_spec.signature_name = "half", "classify"
    request.input.example_list.examples.extend([client.example(x=1), client.example(x=4)])
    found = client.prediction.Classify(request, timeout=60)
    classes = [[(one.label, one.score) for one in row.classes] for row in found.result.classifications]
    assert classes == [[("above", 3.5), ("below", -3.5)], [("above", 5.0), ("above", -5.0)]]
    assert found.model_spec.version.value == 3
    request.input.example_list_with_context.examples.extend([client.example(), client.example(x=4)])
    request.input.example_list_with_context.context.CopyFrom(client.example(x=2))
    found = client.prediction.Classify(request, timeout=60)
    assert [row.classes[0].score for row in found.result.classifications] == [4.0, 5.0]


def test_regress(client: Client) -> None:
    request = client.public.RegressionRequest()
    request.model_spec.name, request.model_spec.signature_name = "half", "regress"
    request.input.example_list.examples.extend([client.example(x=1), client.example(x=4)])
    found = client.prediction.Regress(request, timeout=60)
    assert [one.value for one in found.result.regressions] == [3.5, 5.0]
    assert found.model_spec.signature_name == "regress"


def test_several_tasks_in_one_request(client: Client) -> None:
    request = client.public.MultiInferenceRequest()
    for signature in ("classify", "regress"):
        task = request.tasks.add(method_name=f"tensorflow/serving/{signature}")
        task.model_spec.name, task.model_spec.signature_name = "half", signature
    request.input.example_list.examples.append(client.example(x=1))
    classes, values = client.prediction.MultiInference(request, timeout=60).results
    assert classes.classification_result.classifications[0].classes[0].score == 3.5
    assert values.regression_result.regressions[0].value == 3.5
    assert values.model_spec.signature_name == "regress"
    request.tasks[0].method_name = "tensorflow/serving/predict"
    assert fails(lambda: client.prediction.MultiInference(request, timeout=60))[0] == "UNIMPLEMENTED"


def test_bad_examples_are_errors(client: Client) -> None:
    def ask(signature: str, *examples: Any) -> tuple[str, str]:
        request = client.public.ClassificationRequest()
        request.model_spec.name, request.model_spec.signature_name = "half", signature
        request.input.example_list.examples.extend(examples)
        return fails(lambda: client.prediction.Classify(request, timeout=60))

    assert ask("classify") == ("INVALID_ARGUMENT", "Input is empty.")
    assert ask("x", client.example()) == ("INVALID_ARGUMENT", "No signature was found with the name: x")
    assert ask("classify", client.example())[0] == "INVALID_ARGUMENT"
    assert "classes or scores" in ask("serving_default", client.example(x=1))[1]


# --- metadata, status, reload ---


def test_metadata_describes_every_signature(client: Client) -> None:
    request = client.public.GetModelMetadataRequest(metadata_field=["signature_def"])
    request.model_spec.name = "half"
    reply = client.prediction.GetModelMetadata(request, timeout=60)
    signatures = client.public.SignatureDefMap()
    assert reply.metadata["signature_def"].Unpack(signatures)
    assert reply.model_spec.version.value == 3
    assert sorted(signatures.signature_def) == [
        "classify",
        "every_type",
        "pick",
        "regress",
        "serving_default",
        "strings",
        "two_inputs",
    ]
    info = signatures.signature_def["two_inputs"].inputs["a"]
    assert (info.dtype, [dim.size for dim in info.tensor_shape.dim]) == (1, [-1, 2])
    assert info.name == "two_inputs_a:0"


@pytest.mark.parametrize("fields", [[], ["signature_def", "x"]])
def test_metadata_has_one_field(fields: list[str], client: Client) -> None:
    request = client.public.GetModelMetadataRequest(metadata_field=fields)
    request.model_spec.name = "half"
    assert fails(lambda: client.prediction.GetModelMetadata(request, timeout=60))[0] == "INVALID_ARGUMENT"


def test_the_status_of_versions(client: Client) -> None:
    request = client.public.GetModelStatusRequest()
    request.model_spec.name = "half"
    rows = client.models.GetModelStatus(request, timeout=60).model_version_status
    assert [(row.version, row.state, row.status.error_code) for row in rows] == [(3, 30, 0), (2, 30, 0), (1, 30, 0)]
    request.model_spec.version_label = "canary"
    rows = client.models.GetModelStatus(request, timeout=60).model_version_status
    assert [row.version for row in rows] == [2]
    request.model_spec.version.value = 7
    assert fails(lambda: client.models.GetModelStatus(request, timeout=60)) == (
        "NOT_FOUND",
        "Could not find version 7 of model half",
    )


def test_a_reload_replaces_the_list_of_models(models: Path, tmp_path: Path) -> None:
    flags = ("--model_name=old", f"--model_base_path={models / 'digits'}")
    with ServerProcess(tmp_path, *flags) as process:
        client = Client(process.port)
        request = client.public.ReloadConfigRequest()
        new = request.config.model_config_list.config.add(name="new", model_platform="tensorflow")
        new.base_path = str(models / "half")
        new.model_version_policy.specific.versions.append(2)
        new.version_labels["stable"] = 2
        assert client.models.HandleReloadConfigRequest(request, timeout=60).status.error_code == 0
        assert client.predict("new", x=[2.0])["y"] == [3]
        assert fails(lambda: client.predict("old"))[0] == "NOT_FOUND"
        new.version_labels["stable"] = 3
        assert fails(lambda: client.models.HandleReloadConfigRequest(request, timeout=60))[0] == "FAILED_PRECONDITION"
        del new.version_labels["stable"]
        new.base_path = str(tmp_path / "nothing")
        code, text = fails(lambda: client.models.HandleReloadConfigRequest(request, timeout=60))
        assert code == "UNKNOWN"
        assert str(tmp_path / "nothing") in text
        empty = client.public.ReloadConfigRequest()
        assert fails(lambda: client.models.HandleReloadConfigRequest(empty, timeout=60))[0] == "FAILED_PRECONDITION"
        client.channel.close()


def test_flags_change_answers_and_batches(models: Path, tmp_path: Path) -> None:
    """Tensors as bytes, checked methods, batches of certain sizes, and options of sessions and channels."""
    (tmp_path / "batching.config").write_text(
        "max_batch_size { value: 8 } allowed_batch_sizes: 4 allowed_batch_sizes: 8 num_batch_threads { value: 1 }"
    )
    flags = (
        "--model_name=half",
        f"--model_base_path={models / 'half'}",
        "--enable_serialization_as_tensor_content",
        "--enable_signature_method_name_check",
        "--enable_batching",
        f"--batching_parameters_file={tmp_path / 'batching.config'}",
        "--tensorflow_session_parallelism=1",
        "--grpc_channel_arguments=grpc.max_concurrent_streams=7,grpc.max_receive_message_length=100000",
    )
    with ServerProcess(tmp_path, *flags) as process:
        client = Client(process.port)
        reply = client.prediction.Predict(client.predict_request("half", x=[2.0, 4.0]), timeout=60)
        assert reply.outputs["y"].tensor_content == np.array([4, 5], np.float32).tobytes()
        assert not reply.outputs["y"].float_val
        assert client.predict("half", x=[2.0] * 8)["y"].tolist() == [4] * 8
        assert "max_batch_size" in fails(lambda: client.predict("half", x=[2.0] * 9))[1]
        assert fails(lambda: client.predict("half", x=np.zeros(30_000, np.float32)))[0] == "RESOURCE_EXHAUSTED"
        request = client.public.RegressionRequest()
        request.model_spec.name, request.model_spec.signature_name = "half", "regress"
        request.input.example_list.examples.append(client.example(x=1))
        code, text = fails(lambda: client.prediction.Regress(request, timeout=60))
        assert code == "INVALID_ARGUMENT"
        assert "method_name" in text
        _, page = process.get("/monitoring/prometheus/metrics")
        assert 'tfjob_serving_batch_size_count{model_name="half"} 2' in page
        client.channel.close()


# --- health and reflection ---


@pytest.mark.parametrize("name", ["", "ModelService", "PredictionService", "tensorflow.serving.PredictionService"])
def test_health_of_the_services(name: str, client: Client) -> None:
    health: Any = health_pb2_grpc.HealthStub(client.channel)
    request = health_pb2.HealthCheckRequest(service=name)
    assert health.Check(request, timeout=60).status == health_pb2.HealthCheckResponse.SERVING
    watch = health.Watch(request, timeout=60)
    assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
    watch.cancel()


def test_health_of_an_unknown_service(client: Client) -> None:
    health: Any = health_pb2_grpc.HealthStub(client.channel)
    request = health_pb2.HealthCheckRequest(service="other")
    assert fails(lambda: health.Check(request, timeout=60))[0] == "NOT_FOUND"


def test_reflection_describes_services_and_messages(client: Client) -> None:
    stub: Any = reflection_pb2_grpc.ServerReflectionStub(client.channel)

    def ask(**request: Any) -> Any:
        return next(stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(**request)]), timeout=60))

    names = {one.name for one in ask(list_services="").list_services_response.service}
    assert {"tensorflow.serving.PredictionService", "tensorflow.serving.ModelService"} <= names
    assert "grpc.health.v1.Health" in names
    for name in names:
        assert ask(file_containing_symbol=name).file_descriptor_response.file_descriptor_proto
    found = ask(file_containing_symbol="tensorflow.TensorProto").file_descriptor_response.file_descriptor_proto
    files = [descriptor_pb2.FileDescriptorProto.FromString(content) for content in found]
    fields = {field.name: field.type for file in files for one in file.message_type for field in one.field}
    assert fields["float_val"] == descriptor_pb2.FieldDescriptorProto.TYPE_FLOAT


# --- deadlines and damage ---


def test_a_deadline_ends_a_request_and_not_the_server(client: Client, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    request = client.predict_request("gate", path=os.fsencode(fifo))
    assert fails(lambda: client.prediction.Predict(request, timeout=0.5))[0] == "DEADLINE_EXCEEDED"
    assert client.predict("half", x=[2.0])["y"] == [4]
    os.close(os.open(fifo, os.O_RDWR))  # the run ends, if it had begun


@pytest.mark.parametrize("message", [b"\xff", b"\x0a\x05ab", b"\x12\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", b""])
def test_bytes_that_are_no_request_are_an_error(message: bytes, client: Client) -> None:
    call: Any = client.channel.unary_unary(PREDICT)
    assert fails(lambda: call(message, timeout=60))[0] == "INVALID_ARGUMENT"


@pytest.mark.parametrize("method", [PREDICT + "x", "/tensorflow.serving.SessionService/SessionRun", "/x/y"])
def test_an_unknown_method_is_unimplemented(method: str, client: Client) -> None:
    call: Any = client.channel.unary_unary(method)
    assert fails(lambda: call(b"", timeout=60))[0] == "UNIMPLEMENTED"


def test_a_tensor_that_contradicts_itself_names_its_input(client: Client) -> None:
    request = client.predict_request("half", x=[1.0])
    request.inputs["x"].tensor_shape.dim[0].size = 1 << 60
    code, text = fails(lambda: client.prediction.Predict(request, timeout=60))
    assert code == "INVALID_ARGUMENT"
    assert text.startswith('The input "x": ')


def test_other_protocols_do_not_disturb_the_server(server: ServerProcess, client: Client) -> None:
    for noise in (b"GET / HTTP/1.1\r\n\r\n", os.urandom(10_000), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff"):
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
            connection.sendall(noise)
    assert client.predict("half", x=[2.0])["y"] == [4]
