"""The model server, asked by programs that people use: `curl` over REST, `grpcurl` over gRPC through reflection."""

from __future__ import annotations

import gzip
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster import build, parts
from support.serve.server_process import ServerProcess

# The first time, grpcurl is built.
pytestmark = pytest.mark.timeout(600)

X = json.dumps({"dtype": "DT_FLOAT", "tensorShape": {"dim": [{"size": 2}]}, "floatVal": [1, 4]})


@pytest.fixture(scope="module")
def server(saved_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with the model `half`."""
    folder = tmp_path_factory.mktemp("server")
    with ServerProcess(folder, "--model_name=half", f"--model_base_path={saved_models / 'half'}") as process:
        yield process


def curl(server: ServerProcess, path: str, *options: str) -> tuple[int, bytes]:
    """Return the status and the body of a reply."""
    url = f"http://127.0.0.1:{server.rest_port}{path}"
    command = ["curl", "--silent", "--show-error", "--max-time", "60", "--write-out", "\n%{http_code}", *options, url]
    done = subprocess.run(command, capture_output=True, check=True)
    body, _, status = done.stdout.rpartition(b"\n")
    return int(status), body


def test_curl_asks_for_status_metadata_and_predictions(server: ServerProcess) -> None:
    status, body = curl(server, "/v1/models/half")
    assert (status, json.loads(body)["model_version_status"][0]["state"]) == (200, "AVAILABLE")
    status, body = curl(server, "/v1/models/half/versions/3/metadata")
    assert (status, json.loads(body)["model_spec"]["version"]) == (200, "3")
    # curl sends this document as a form, whose type the server ignores as TensorFlow Serving does.
    status, body = curl(server, "/v1/models/half:predict", "-d", '{"instances": [1.0, 4.0]}')
    assert (status, json.loads(body)["predictions"][1]) == (200, {"y": 5.0, "offset": 3.0})
    status, body = curl(server, "/v1/models/half:predict", "-d", '{"instances": "x"}')
    assert (status, list(json.loads(body))) == (400, ["error"])
    assert curl(server, "/v1/models/other")[0] == 404


def test_curl_sends_and_gets_compressed_and_large_bodies(server: ServerProcess, tmp_path: Path) -> None:
    document = json.dumps({"inputs": {"x": [1.0] * 50_000}}).encode()
    plain, packed = tmp_path / "plain", tmp_path / "packed"
    plain.write_bytes(document)
    packed.write_bytes(gzip.compress(document))
    expected = {"y": [3.5] * 50_000, "offset": [3.0] * 50_000}
    for options in (
        ("--data-binary", f"@{plain}", "-H", "Expect: 100-continue"),
        ("--data-binary", f"@{plain}", "-H", "Transfer-Encoding: chunked"),
        ("--data-binary", f"@{packed}", "-H", "Content-Encoding: gzip", "--compressed"),
    ):
        status, body = curl(server, "/v1/models/half:predict", *options)
        assert (status, json.loads(body)["outputs"]) == (200, expected)
    _, raw = curl(server, "/v1/models/half:predict", "--data-binary", f"@{plain}", "-H", "Accept-Encoding: gzip")
    assert len(raw) < len(document) / 10
    assert json.loads(gzip.decompress(raw))["outputs"] == expected


def test_curl_sees_health_and_metrics(server: ServerProcess) -> None:
    assert curl(server, "/readyz")[0] == 200
    assert b":tensorflow:serving:request_count" in curl(server, "/monitoring/prometheus/metrics")[1]


def grpcurl(server: ServerProcess, *words: str, data: str = "") -> subprocess.CompletedProcess[str]:
    """Run grpcurl, which has no .proto file and asks the server for the messages."""
    program = build.binaries(parts.GRPCURL) / "grpcurl"
    options = ["-plaintext", "-max-time", "60", *(["-d", data] if data else [])]
    command = [str(program), *options, f"127.0.0.1:{server.port}", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def answer(server: ServerProcess, method: str, document: object) -> Any:
    done = grpcurl(server, method, data=json.dumps(document))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_grpcurl_lists_and_describes_the_services(server: ServerProcess) -> None:
    listed = grpcurl(server, "list")
    assert {"tensorflow.serving.PredictionService", "grpc.health.v1.Health"} <= set(listed.stdout.split())
    described = grpcurl(server, "describe", "tensorflow.serving.PredictionService")
    assert "rpc Predict ( .tensorflow.serving.PredictRequest )" in described.stdout
    assert "float_val" in grpcurl(server, "describe", "tensorflow.TensorProto").stdout


def test_grpcurl_calls_the_services(server: ServerProcess) -> None:
    service = "tensorflow.serving.PredictionService"
    spec = {"name": "half"}
    reply = answer(server, f"{service}/Predict", {"modelSpec": spec, "inputs": {"x": json.loads(X)}})
    assert reply["outputs"]["y"]["floatVal"] == [3.5, 5]
    assert reply["modelSpec"]["version"] == "3"
    example = {"features": {"feature": {"x": {"floatList": {"value": [4]}}}}}
    document = {
        "modelSpec": {**spec, "signatureName": "regress"},
        "input": {"exampleList": {"examples": [example]}},
    }
    assert answer(server, f"{service}/Regress", document)["result"]["regressions"] == [{"value": 5}]
    reply = answer(server, f"{service}/GetModelMetadata", {"modelSpec": spec, "metadataField": ["signature_def"]})
    assert "regress" in reply["metadata"]["signature_def"]["signatureDef"]
    reply = answer(server, "tensorflow.serving.ModelService/GetModelStatus", {"modelSpec": spec})
    assert reply["model_version_status"][0]["state"] == "AVAILABLE"
    assert answer(server, "grpc.health.v1.Health/Check", {"service": "PredictionService"}) == {"status": "SERVING"}


def test_grpcurl_gets_the_status_of_an_error(server: ServerProcess) -> None:
    done = grpcurl(server, "tensorflow.serving.PredictionService/Predict", data='{"modelSpec": {"name": "other"}}')
    assert done.returncode
    assert "Code: NotFound" in done.stderr
    assert "Servable not found for request: Latest(other)" in done.stderr
