"""Model servers of `tfjob serve` and of documents that are killed, updated and scaled while clients ask."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import grpc
import pytest

from support.command_line import CommandLine
from support.installed import Installed
from support.ports import free_port
from support.running import is_alive, wait_until, workload_pid
from support.serve.models import publish
from support.serve.server_process import LONGEST_WAIT, PREDICT
from tfjob.serve import protos
from tfjob.serve.client import RETRIES

BODY = json.dumps({"instances": [4.0]}).encode()
DOCUMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: rolling}
spec:
  replicas: 2
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}
  selector: {matchLabels: {app: rolling}}
  template:
    metadata: {labels: {app: rolling}}
    spec:
      containers:
      - name: server
        image: tensorflow/serving:2.19.1
        env: [{name: MODEL_NAME, value: half}, {name: MODEL_BASE_PATH, value: /models/VERSION}]
        volumeMounts: [{name: models, mountPath: /models, readOnly: true}]
        ports: [{name: grpc, containerPort: 8500}, {name: rest, containerPort: 8501}]
        readinessProbe: {httpGet: {path: /v1/models/half/metadata, port: rest}, periodSeconds: 1}
      volumes: [{name: models, hostPath: {path: FOLDER}}]
---
apiVersion: v1
kind: Service
metadata: {name: rolling, annotations: {tfjob/same-ports: ""}}
spec:
  selector: {app: rolling}
  ports: [{name: grpc, port: GRPC, targetPort: grpc}, {name: rest, port: REST, targetPort: rest}]
"""


class Load:
    """Two clients over gRPC and two over REST, which ask without a pause for half of 4 plus the version's number.

    `answers` counts the versions that answered, by protocol. `errors` counts what the clients got instead.
    """

    def __init__(self, ports: tuple[int, int]) -> None:
        self.answers: Counter[tuple[str, float]] = Counter()
        self.errors: Counter[str] = Counter()
        self._ports = ports
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=one) for one in (self._ask_grpc, self._ask_rest) * 2]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def wait_for_answers(self, version: float | None = None, count: int = 50) -> None:
        """Wait until both protocols have answered so many further requests, if given, from a version."""
        before = self.answers.copy()

        def are_there() -> bool:
            new = self.answers - before
            wanted = {key: number for key, number in new.items() if version in (None, key[1])}
            return all(sum(n for (how, _), n in wanted.items() if how == one) >= count for one in ("grpc", "rest"))

        wait_until(are_there, 120, lambda: f"{self.answers} {self.errors}")

    def _ask_grpc(self) -> None:
        request = protos.plain(protos.PredictRequest)()
        request.model_spec.name = "half"
        request.inputs["x"].dtype = protos.DATA_TYPES["DT_FLOAT"]
        request.inputs["x"].tensor_shape.dim.add().size = 1
        request.inputs["x"].float_val.append(4)
        options: list[tuple[str, Any]] = [
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.max_reconnect_backoff_ms", 500),
            ("grpc.service_config", json.dumps(RETRIES)),
        ]
        with grpc.insecure_channel(f"127.0.0.1:{self._ports[0]}", options=options) as channel:
            call: Any = channel.unary_unary(PREDICT)

            def ask() -> float:
                reply = call(request.SerializeToString(), timeout=LONGEST_WAIT)
                return float(protos.plain(protos.PredictResponse).FromString(reply).outputs["y"].float_val[0])

            self._repeat("grpc", ask)

    def _ask_rest(self) -> None:
        """Ask over a new connection for each request."""
        url = f"http://127.0.0.1:{self._ports[1]}/v1/models/half:predict"

        def ask() -> float:
            with urlopen(Request(url, data=BODY), timeout=LONGEST_WAIT) as answer:
                (found,) = json.load(answer)["predictions"]
            return float(found["y"])

        self._repeat("rest", ask)

    def _repeat(self, how: str, ask: Callable[[], float]) -> None:
        while not self._stop.is_set():
            try:
                self.answers[how, ask() - 2] += 1
            except grpc.RpcError as error:
                self.errors[f"{how} {error.code().name}"] += 1
            except HTTPError as error:
                self.errors[f"{how} {error.code}"] += 1
            except (URLError, OSError) as error:
                reason = getattr(error, "reason", error)
                self.errors[f"{how} {type(reason).__name__}"] += 1
            else:
                continue
            self._stop.wait(0.05)  # the server needs the cores to start


@pytest.fixture
def cli(tool: Installed, tmp_path: Path) -> Iterator[CommandLine]:
    """A new state folder; no process may be left at the end of the test."""
    line = CommandLine(tool, tmp_path / "home")
    yield line
    line.end()


@pytest.fixture
def ports() -> tuple[int, int]:
    """Free ports for gRPC and REST."""
    return free_port(), free_port()


def ready(cli: CommandLine, name: str) -> str:
    return str(json.loads(cli("status", name, "-o", "json"))["ready"])


def test_a_killed_server_restarts_and_no_client_hangs(
    cli: CommandLine, saved_models: Path, tmp_path: Path, ports: tuple[int, int]
) -> None:
    publish(saved_models / "half/1", tmp_path / "half", 1)
    options = ("--port", str(ports[0]), "--rest-port", str(ports[1]), "--detach")
    cli("serve", str(tmp_path / "half"), *options)
    wait_until(lambda: ready(cli, "half-serving") == "1/1", 120)
    with Load(ports) as load:
        load.wait_for_answers()
        assert not load.errors
        first = workload_pid(cli.home, "half-serving-*", container="server")
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: not is_alive(first), 60)
        wait_until(lambda: bool(load.errors), 60)
        load.wait_for_answers(version=1)
    # The deadline of a minute ends no request: each one that the dead server had got ends with its connection.
    closed = {"grpc UNAVAILABLE", "rest RemoteDisconnected"}
    closed |= {f"rest {kind.__name__}" for kind in (BrokenPipeError, ConnectionResetError, ConnectionRefusedError)}
    assert load.errors.keys() <= closed, load.errors
    assert workload_pid(cli.home, "half-serving-*", container="server") != first
    wait_until(lambda: ready(cli, "half-serving") == "1/1", 120)
    cli("delete", "half-serving", "-y")


def test_a_rolling_update_fails_no_request(
    cli: CommandLine, saved_models: Path, tmp_path: Path, ports: tuple[int, int]
) -> None:
    for version in (1, 2):
        publish(saved_models / "half" / str(version), tmp_path / f"v{version}" / "half", version)
    text = DOCUMENT.replace("FOLDER", str(tmp_path)).replace("GRPC", str(ports[0])).replace("REST", str(ports[1]))
    file = tmp_path / "rolling.yaml"

    def submit(version: int) -> None:
        file.write_text(text.replace("VERSION", f"v{version}"))
        cli("submit", str(file), "--no-limits")

    submit(1)
    wait_until(lambda: ready(cli, "rolling") == "2/2", 120)
    with Load(ports) as load:
        load.wait_for_answers(version=1)
        submit(2)
        load.wait_for_answers(version=2)
        wait_until(lambda: ready(cli, "rolling") == "2/2" and not old_pods(cli), 120)
        load.wait_for_answers(version=2)
    assert not load.errors
    assert {version for _, version in load.answers} == {1, 2}
    cli("delete", "rolling", "-y")


def old_pods(cli: CommandLine) -> bool:
    """Tell whether a third pod is still there."""
    return len(json.loads(cli("status", "rolling", "-o", "json"))["replicas"]) > 2
