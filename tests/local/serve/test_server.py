"""The model server as a process: flags, ports, readiness, configuration files, TLS and signals."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import pytest

from support.kube.kube_files import Authority
from support.ports import free_port
from support.serve.models import publish
from support.serve.server_process import ServerProcess, predict_over_grpc, read_reply, until

ONE = {"instances": [1.0]}


@pytest.fixture(scope="module")
def server(saved_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with the model `half`."""
    folder = tmp_path_factory.mktemp("server")
    with ServerProcess(folder, "--model_name=half", f"--model_base_path={saved_models / 'half'}") as process:
        yield process


def test_both_servers_answer_with_the_newest_version(server: ServerProcess) -> None:
    assert server.predict("half", ONE) == (200, {"predictions": [{"y": 3.5, "offset": 3.0}]})
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        reply = predict_over_grpc(channel, "half", x=1.0)
    assert reply.outputs["y"].float_val == [3.5]
    assert reply.model_spec.version.value == 3


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"inputs": {"x": [1, 2]}}, {"outputs": {"y": [3.5, 4.0], "offset": [3.0, 3.0]}}),
        ({"inputs": [1]}, {"outputs": {"y": [3.5], "offset": [3.0]}}),
        ({"signature_name": "two_inputs", "instances": [{"a": [1, 2], "b": 3}]}, {"predictions": [6.0]}),
        (
            {"signature_name": "strings", "inputs": {"suffix": {"b64": "IQ=="}, "words": ["\u00e4"]}},
            {"outputs": {"joined": ["\u00e4!"], "lengths": [2], "suffix_bytes": {"b64": "IQ=="}}},
        ),
        ({"signature_name": "pick", "instances": [2, 0]}, {"predictions": [30, 10]}),
    ],
)
def test_predict_over_rest(document: object, expected: object, server: ServerProcess) -> None:
    assert server.predict("half", document) == (200, expected)


def test_classify_and_regress_over_rest(server: ServerProcess) -> None:
    body = b'{"signature_name": "%s", "context": {"x": 9.0}, "examples": [{"x": 3.0}, {}]}'
    classes = server.ask("POST", "/v1/models/half:classify", body % b"classify")
    assert classes == (200, {"results": [[["above", 4.5], ["above", -4.5]], [["above", 7.5], ["above", -7.5]]]})
    assert server.ask("POST", "/v1/models/half:regress", body % b"regress") == (200, {"results": [4.5, 7.5]})


@pytest.mark.parametrize(
    ("status", "method", "path", "body"),
    [
        (404, "GET", "/v1/models/other", None),
        (404, "GET", "/v1/models/half/versions/7", None),
        (404, "POST", "/v1/models/half/versions/7:predict", b'{"instances": [1]}'),
        (400, "GET", "/v1/models/half/labels/stable", None),
        (400, "POST", "/v1/models/half:predict", b'{"instances": [[1]]}'),
        (400, "POST", "/v1/models/half:predict", b'{"signature_name": "pick", "instances": [7]}'),
        (400, "POST", "/v1/models/half:predict", b'{"signature_name": "other", "instances": [1]}'),
        (400, "POST", "/v1/models/half:regress", b'{"signature_name": "other", "examples": [{"x": 1.0}]}'),
    ],
)
def test_an_error_has_its_status(
    status: int, method: str, path: str, body: bytes | None, server: ServerProcess
) -> None:
    found, document = server.ask(method, path, body)
    assert (found, list(document)) == (status, ["error"])


def test_the_open_inference_protocol_answers(server: ServerProcess) -> None:
    assert server.get("/v2/health/ready") == (200, {"ready": True})
    assert server.get("/v2/models/half/versions/3")[1]["platform"] == "tensorflow_savedmodel"
    tensor = {"name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2]}
    document = {"id": "7", "inputs": [tensor], "outputs": [{"name": "y"}]}
    assert server.ask("POST", "/v2/models/half/infer", json.dumps(document).encode()) == (
        200,
        {
            "model_name": "half",
            "model_version": "3",
            "id": "7",
            "outputs": [{"name": "y", "shape": [2], "datatype": "FP32", "data": [3.5, 4.0]}],
        },
    )
    wrong = json.dumps({"inputs": [{**tensor, "datatype": "FP64"}]}).encode()
    for status, path, body in (
        (400, "/v2/models/half/infer", wrong),
        (404, "/v2/models/half/versions/7/infer", json.dumps(document).encode()),
        (404, "/v2/nothing", b""),
    ):
        found, error = server.ask("POST", path, body)
        assert (found, list(error)) == (status, ["error"])


def test_status_metadata_and_metrics(server: ServerProcess) -> None:
    _, status = server.get("/v1/models/half")
    assert [(row["version"], row["state"]) for row in status["model_version_status"]] == [("3", "AVAILABLE")]
    _, metadata = server.get("/v1/models/half/versions/3/metadata")
    signatures = metadata["metadata"]["signature_def"]["signature_def"]
    assert signatures["serving_default"]["inputs"]["x"]["dtype"] == "DT_FLOAT"
    assert signatures["classify"]["method_name"] == "tensorflow/serving/predict"
    server.predict("half", ONE)
    _, page = server.get("/monitoring/prometheus/metrics")
    for line in (
        ':tensorflow:serving:request_count{model_name="half",status="OK"} ',
        ':tensorflow:serving:request_latency_count{model_name="half",API="predict",entrypoint="REST"} ',
        ':tensorflow:cc:saved_model:load_attempt_count{model_path="',
        'tfjob_serving_version_state{model_name="half",version="3",state="AVAILABLE"} 1',
    ):
        assert line in page
    (latency,) = re.findall(r'request_latency_sum\{.*"predict".* (.*)', page)
    assert float(latency) % 1000 > 0.01  # not in whole milliseconds


def run(*flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tfjob.serve", *flags], capture_output=True, text=True, timeout=60, check=False
    )


def test_a_flag_may_ask_a_question_or_be_wrong() -> None:
    version = run("--version")
    assert version.returncode == 0
    assert [line.split(":")[0] for line in version.stdout.splitlines()] == [
        "TensorFlow ModelServer",
        "TensorFlow Library",
    ]
    unknown = run("--model_nam=x")
    assert unknown.returncode == 255
    assert "--model_name" in unknown.stderr
    assert "Traceback" not in unknown.stderr
    assert "--rest_api_port" in run("--help").stdout


def test_a_port_in_use_is_an_error(server: ServerProcess, saved_models: Path) -> None:
    base = f"--model_base_path={saved_models / 'half'}"
    for flags in ((f"--port={server.port}",), (f"--port={free_port()}", f"--rest_api_port={server.rest_port}")):
        ended = run(base, *flags)
        assert ended.returncode == 255
        assert "Traceback" not in ended.stderr
        assert "error: " in ended.stderr


def test_a_server_without_a_version_is_up_and_not_ready(saved_models: Path, tmp_path: Path) -> None:
    base = tmp_path / "models"
    base.mkdir()
    (base / "notes.txt").touch()
    with ServerProcess(tmp_path, "--model_name=half", f"--model_base_path={base}") as server:
        status, text = server.get("/readyz")
        assert status == 503
        assert f"{base} contains notes.txt" in text
        assert server.get("/healthz")[0] == 200
        assert server.predict("half", ONE)[0] == 404
        assert f"{base} contains notes.txt" in server.text()
        publish(saved_models / "half" / "2", base, 2)
        server.wait_until_ready()
        assert server.predict("half", ONE)[1] == {"predictions": [{"y": 2.5, "offset": 2.0}]}


def models_text(base: Path, *extra: str) -> str:
    return (
        f'model_config_list {{ config {{ name: "half" base_path: "{base / "half"}" model_platform: "tensorflow"'
        f" model_version_policy {{ all {{}} }} {' '.join(extra)} }} }}"
    )


def test_a_changed_file_of_models_applies_and_a_bad_one_does_not(saved_models: Path, tmp_path: Path) -> None:
    file, base = tmp_path / "models.config", tmp_path / "half"
    for version in (1, 2):
        publish(saved_models / "half" / str(version), base, version)
    file.write_text(models_text(tmp_path))
    flags = (f"--model_config_file={file}", "--model_config_file_poll_wait_seconds=1")
    with ServerProcess(tmp_path, *flags) as server:
        assert server.ask("POST", "/v1/models/half/versions/1:predict", b'{"instances": [1]}')[0] == 200
        assert server.get("/v1/models/half/labels/stable")[0] == 400
        file.write_text(models_text(tmp_path, 'version_labels { key: "stable" value: 2 }'))
        until(lambda: server.get("/v1/models/half/labels/stable")[0] == 200, "the label", server.process)
        file.write_text("model_config_list { config")
        server.wait_for("the old configuration stays")
        assert server.get("/v1/models/half/labels/stable")[0] == 200
        file.write_text(models_text(tmp_path, 'version_labels { key: "next" value: 3 }'))
        server.wait_for("the old configuration stays", count=2)
        publish(saved_models / "half" / "3", base, 3)
        until(lambda: server.get("/v1/models/half/labels/next")[0] == 200, "the label", server.process)


def test_a_file_of_models_with_an_error_ends_the_server(tmp_path: Path) -> None:
    file = tmp_path / "models.config"
    file.write_text(models_text(tmp_path).replace("model_platform", "platform"))
    ended = run(f"--model_config_file={file}")
    assert ended.returncode == 255
    assert str(file) in ended.stderr


@pytest.mark.parametrize("verify", [False, True])
def test_tls_protects_both_servers(verify: bool, saved_models: Path, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, client = authority.sign("server", "127.0.0.1"), authority.sign("client")
    file = tmp_path / "ssl.config"
    texts = {"server_key": certificate.key, "server_cert": certificate.certificate}
    if verify:
        texts["custom_ca"] = authority.pem
    lines = [f"{name}: {json.dumps(text.decode())}" for name, text in texts.items()]
    file.write_text("\n".join([*lines, f"client_verify: {str(verify).lower()}"]))
    base = f"--model_base_path={saved_models / 'half'}"
    with ServerProcess(tmp_path, base, f"--ssl_config_file={file}") as server:
        pems = (authority.pem, client.key, client.certificate) if verify else (authority.pem,)
        with grpc.secure_channel(f"127.0.0.1:{server.port}", grpc.ssl_channel_credentials(*pems)) as channel:
            assert predict_over_grpc(channel, "default", x=1.0).outputs["y"].float_val == [3.5]
        context = ssl.create_default_context(cafile=str(authority.file))
        if verify:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                status_over_tls(server, context)
            context.load_cert_chain(client.certificate_file, client.key_file)
        assert status_over_tls(server, context) == 200
        assert is_open(server.rest_port)
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            server.get("/readyz")


def status_over_tls(server: ServerProcess, context: ssl.SSLContext) -> int:
    connection = http.client.HTTPSConnection("127.0.0.1", server.rest_port, context=context, timeout=60)
    with closing(connection):
        connection.request("GET", "/readyz")
        return read_reply(connection)[0]


def test_sigterm_lets_running_requests_finish(saved_models: Path, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    flags = ("--model_name=gate", f"--model_base_path={saved_models / 'gate'}", "--enable_model_warmup=false")
    replies: list[tuple[int, Any]] = []
    with ServerProcess(tmp_path, *flags) as server:
        asking = threading.Thread(target=lambda: replies.append(server.predict("gate", {"inputs": str(fifo)})))
        asking.start()
        begun = ":tensorflow:serving:batching_session:queuing_latency_count{} 1"
        until(lambda: begun in server.get("/monitoring/prometheus/metrics")[1], "a running request", server.process)
        server.process.send_signal(signal.SIGTERM)
        until(lambda: not is_open(server.rest_port) and not is_open(server.port), "closed ports", server.process)
        assert not replies
        with fifo.open("wb"):  # the model waits for a writer
            asking.join(60)
        # TensorFlow opens a pipe but cannot seek in it: this error is the reply of a model that has run.
        ((_, reply),) = replies
        assert "Illegal seek" in reply["error"]
        assert server.process.wait(60) == 0


def is_open(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.connect()
    except ConnectionRefusedError:
        return False
    finally:
        connection.close()
    return True


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_server_ends_at_once_with_0(number: int, saved_models: Path, tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path, f"--model_base_path={saved_models / 'half'}") as server,
        grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        predict_over_grpc(channel, "default", x=1.0)
        assert server.stop(number) == 0


def test_a_server_that_still_loads_ends_with_0(saved_models: Path, tmp_path: Path) -> None:
    with ServerProcess(tmp_path, f"--model_base_path={saved_models / 'large'}", waits=False) as server:
        server.wait_for("Loading version 1")
        assert server.stop() == 0


def test_a_server_reads_all_of_its_files(saved_models: Path, tmp_path: Path) -> None:
    texts = {
        "batching_parameters": "max_batch_size { value: 4 } allowed_batch_sizes: 2 allowed_batch_sizes: 4",
        "monitoring_config": 'prometheus_config { enable: true path: "/metrics" }',
        "tensorflow_session_config": "intra_op_parallelism_threads: 1",
    }
    flags = ["--enable_batching", "--rest_api_enable_cors_support", "--enable_profiler=false"]
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        flags.append(f"--{name}_file={tmp_path / name}")
    with ServerProcess(tmp_path, f"--model_base_path={saved_models / 'half'}", *flags) as server:
        assert server.predict("default", {"instances": [1.0]})[1] == {"predictions": [{"y": 3.5, "offset": 3.0}]}
        status, reply = server.predict("default", {"instances": [1.0] * 5})
        assert (status, "max_batch_size" in reply["error"]) == (400, True)
        page = server.get("/metrics")[1]
        assert ':tensorflow:serving:request_count{model_name="default",status="INVALID_ARGUMENT"} 1' in page
        assert server.get("/monitoring/prometheus/metrics")[0] == 404
        assert server.ask("OPTIONS", "/v1/models/default", headers={"Origin": "http://a.example"})[0] == 200
        assert "--enable_profiler has no effect" in server.text()


def test_a_server_listens_on_a_unix_socket_alone(saved_models: Path, tmp_path: Path) -> None:
    path = tmp_path / "grpc.sock"
    flags = ("--port=0", f"--grpc_socket_path={path}", f"--model_base_path={saved_models / 'half'}")
    with ServerProcess(tmp_path, *flags) as server:
        with grpc.insecure_channel(f"unix:{path}") as channel:
            assert predict_over_grpc(channel, "default", x=1.0).outputs["y"].float_val == [3.5]
        assert not is_open(server.port)
        assert server.stop() == 0


def test_a_pod_listens_on_all_addresses(saved_models: Path, tmp_path: Path) -> None:
    base = f"--model_base_path={saved_models / 'half'}"
    with ServerProcess(tmp_path, base, environ={"KUBERNETES_SERVICE_HOST": "10.0.0.1"}) as server:
        connection = http.client.HTTPConnection("127.0.0.2", server.rest_port, timeout=10)
        connection.request("GET", "/readyz")
        assert read_reply(connection)[0] == 200
        connection.close()
        with grpc.insecure_channel(f"127.0.0.2:{server.port}") as channel:
            assert predict_over_grpc(channel, "default", x=1.0).outputs["y"].float_val == [3.5]
