"""Versions that change under a running server: switches under load, broken versions, and memory."""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from support.serve.models import publish
from support.serve.server_process import ServerProcess, until
from tfjob.serve import protos

SERVICE = "/tensorflow.serving.PredictionService/Predict"
RELOAD = "/tensorflow.serving.ModelService/HandleReloadConfigRequest"
SWITCHES = 20
REQUESTS = 5000
CLIENTS = 4
CYCLES = 12
WEIGHTS, LARGEST_GROWTH = 40_000_000, 10_000_000
"""Bytes of the variables of `large`, and what 12 cycles may add."""


class Load:
    """Clients that ask without a pause and check every answer: version V of `half` must answer x / 2 + 1 + V % 3."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.versions: Counter[int] = Counter()
        self.errors: Counter[str] = Counter()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(CLIENTS)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _ask(self) -> None:
        request = protos.plain(protos.PredictRequest)()
        request.model_spec.name = "half"
        request.inputs["x"].dtype = protos.DATA_TYPES["DT_FLOAT"]
        request.inputs["x"].tensor_shape.dim.add().size = 1
        request.inputs["x"].float_val.append(4)
        message, newest = request.SerializeToString(), 0
        options = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(f"127.0.0.1:{self.port}", options=options) as channel:
            call: Any = channel.unary_unary(SERVICE)
            while not self._stop.is_set():
                try:
                    reply = protos.plain(protos.PredictResponse).FromString(call(message, timeout=60))
                except grpc.RpcError as error:
                    self.errors[str(error)] += 1
                    continue
                version = reply.model_spec.version.value
                outputs = {alias: proto.float_val[0] for alias, proto in reply.outputs.items()}
                offset = 1 + version % 3
                if outputs != {"y": 2 + offset, "offset": offset}:
                    self.errors[f"version {version} answered {outputs}"] += 1
                if version < newest:
                    self.errors[f"version {version} answered after {newest}"] += 1
                newest = version
                self.versions[version] += 1


@pytest.fixture
def base(saved_models: Path, tmp_path: Path) -> Path:
    """A model with version 1."""
    publish_half(saved_models, tmp_path / "half", 1)
    return tmp_path / "half"


@pytest.fixture
def server(base: Path, tmp_path: Path) -> Iterator[ServerProcess]:
    flags = ("--model_name=half", f"--model_base_path={base}", "--max_num_load_retries=0")
    with ServerProcess(tmp_path, *flags) as process:
        yield process


def publish_half(saved_models: Path, base: Path, version: int) -> Path:
    return publish(saved_models / "half" / str(1 + version % 3), base, version)


def reload(port: int, name: str, base: Path, versions: Sequence[int] = ()) -> None:
    """Let the server look at a model's folder at once."""
    request = protos.ReloadConfigRequest()
    config = request.config.model_config_list.config.add(name=name, base_path=str(base), model_platform="tensorflow")
    if versions:
        config.model_version_policy.specific.versions.extend(versions)
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        call: Any = channel.unary_unary(RELOAD)
        call(request.SerializeToString(), timeout=60)


def rows(server: ServerProcess) -> dict[str, tuple[str, str]]:
    _, document = server.get("/v1/models/half")
    return {row["version"]: (row["state"], row["status"]["error_code"]) for row in document["model_version_status"]}


def test_no_request_fails_or_mixes_versions_while_they_change(
    server: ServerProcess, base: Path, saved_models: Path
) -> None:
    with Load(server.port) as load:
        for version in range(2, SWITCHES + 2):
            publish_half(saved_models, base, version)
            if version < SWITCHES:  # the last ones are found by the watch
                reload(server.port, "half", base)
            until(partial(load.versions.get, version), f"version {version}", server.process)
            shutil.rmtree(base / str(version - 1))
        until(lambda: load.versions.total() >= REQUESTS, "the requests", server.process)
    assert load.errors == {}
    assert len(load.versions) >= SWITCHES
    until(lambda: rows(server)["20"][0] == "END", "the end of the old version", server.process)
    assert rows(server)["21"] == ("AVAILABLE", "OK")


def test_a_broken_version_leaves_the_old_one_serving(server: ServerProcess, base: Path, saved_models: Path) -> None:
    publish(saved_models / "broken/1", base, 2)
    until(lambda: "2" in rows(server) and rows(server)["2"][0] == "END", "the attempt", server.process)
    state = rows(server)
    assert state["1"] == ("AVAILABLE", "OK")
    assert state["2"][1] not in ("OK", "0")
    assert server.predict("half", {"instances": [2.0]})[1]["predictions"][0]["y"] == 3
    assert "Version 2 of half does not load" in server.text()
    assert "version 1 keeps serving" in server.text()
    _, page = server.get("/monitoring/prometheus/metrics")
    assert f'load_attempt_count{{model_path="{base / "2"}",status="fail"}} 1' in page
    publish_half(saved_models, base, 3)
    until(lambda: rows(server).get("3") == ("AVAILABLE", "OK"), "the next version", server.process)


def test_an_incomplete_version_is_explained_and_then_taken(
    server: ServerProcess, base: Path, saved_models: Path
) -> None:
    (base / "2").mkdir()
    until(lambda: "2" in rows(server), "the row", server.process)
    _, document = server.get("/v1/models/half/versions/2")
    assert "saved_model.pb is missing" in document["model_version_status"][0]["status"]["error_message"]
    shutil.copytree(saved_models / "half/3/variables", base / "2/variables")
    shutil.copy(saved_models / "half/3/saved_model.pb", base / "2")
    until(lambda: rows(server)["2"] == ("AVAILABLE", "OK"), "the version", server.process)


def test_health_follows_the_versions(saved_models: Path, tmp_path: Path) -> None:
    base = tmp_path / "half"
    base.mkdir()
    server = ServerProcess(tmp_path, "--model_name=half", f"--model_base_path={base}")
    with server, grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        health: Any = health_pb2_grpc.HealthStub(channel)
        states = health.Watch(health_pb2.HealthCheckRequest(), timeout=60)
        assert next(states).status == health_pb2.HealthCheckResponse.NOT_SERVING
        assert f"The model half has no version yet: {base} is empty." in server.text()
        publish_half(saved_models, base, 1)
        assert next(states).status == health_pb2.HealthCheckResponse.SERVING
        states.cancel()


def test_the_warm_up_file_of_a_model_runs_before_it_serves(saved_models: Path, tmp_path: Path) -> None:
    """A record that fails keeps its version from serving."""
    good, bad = (protos.PredictionLog() for _ in range(2))
    for log, size in ((good, 1), (bad, 2)):
        tensor = log.predict_log.request.inputs["x"]
        tensor.dtype = protos.DATA_TYPES["DT_FLOAT"]
        for _ in range(size):
            tensor.tensor_shape.dim.add().size = 1
    for version, log in ((1, good), (2, bad)):
        part = publish_half(saved_models, tmp_path / "part", version)
        (part / "assets.extra").mkdir()
        content = log.SerializeToString()
        record = len(content).to_bytes(8, "little") + bytes(4) + content + bytes(4)
        (part / "assets.extra/tf_serving_warmup_requests").write_bytes(record)
    (tmp_path / "part").rename(tmp_path / "half")
    flags = ("--model_name=half", f"--model_base_path={tmp_path / 'half'}", "--max_num_load_retries=0")
    with ServerProcess(tmp_path, *flags) as server:
        assert rows(server) == {"2": ("END", "INVALID_ARGUMENT"), "1": ("AVAILABLE", "OK")}
        _, document = server.get("/v1/models/half/versions/2")
        assert "Record 1 of" in document["model_version_status"][0]["status"]["error_message"]


def test_memory_returns_after_an_unload(saved_models: Path, tmp_path: Path) -> None:
    base = tmp_path / "large"
    for version in (1, 2):
        publish(saved_models / "large/1", base, version)
    with ServerProcess(tmp_path, "--model_name=large", f"--model_base_path={base}") as server:
        used = []
        for cycle in range(CYCLES):
            reload(server.port, "large", base, [1 + cycle % 2])
            server.wait_for("is unloaded", cycle + 1)
            used.append(anonymous_memory(server))
        assert max(used) - min(used) <= LARGEST_GROWTH, used
        reload(server.port, "half", saved_models / "half")
        server.wait_for("is unloaded", CYCLES + 1)
        assert used[-1] - anonymous_memory(server) >= WEIGHTS - LARGEST_GROWTH, used


def anonymous_memory(server: ServerProcess) -> int:
    """Return the bytes of memory that belongs to the process alone, without mapped files."""
    text = Path(f"/proc/{server.process.pid}/smaps_rollup").read_text()
    found: dict[str, Any] = dict(line.split(":", 1) for line in text.splitlines()[1:])
    return int(found["Anonymous"].split()[0]) * 1024
