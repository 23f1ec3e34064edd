"""A model server as a process, for tests: `with ServerProcess(folder, "--model_base_path=...") as server: ...`."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import grpc

from support.ports import free_port
from tfjob.serve import protos

LONGEST_WAIT = 60.0
PREDICT = "/tensorflow.serving.PredictionService/Predict"


class ServerProcess:
    """A server that ends with the test; it listens on free ports of loopback, unless `flags` say otherwise."""

    def __init__(self, folder: Path, *flags: str, environ: Mapping[str, str] | None = None, waits: bool = True) -> None:
        self.port = free_port()
        self.rest_port = free_port()
        self.log = folder / f"server-{self.port}.log"
        command = [sys.executable, "-m", "tfjob.serve", f"--port={self.port}", f"--rest_api_port={self.rest_port}"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, *flags], stdout=log, stderr=subprocess.STDOUT, env={**os.environ, **(environ or {})}
            )
        if waits:
            try:
                self.wait_for("REST listens")
            except BaseException:
                self.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close()
        if kind is not None:
            print(self.text())

    def text(self) -> str:
        return self.log.read_text()

    def wait_for(self, text: str, count: int = 1) -> None:
        """Wait until the log contains the text so many times."""
        until(lambda: self.text().count(text) >= count, f"{text!r} in the log, which is\n{self.text()}", self.process)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(LONGEST_WAIT)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """Return the status and the JSON, or the text, of an HTTP reply."""
        connection = http.client.HTTPConnection("127.0.0.1", self.rest_port, timeout=LONGEST_WAIT)
        try:
            connection.request(method, path, body, dict(headers or {}))
            return read_reply(connection)
        finally:
            connection.close()

    def get(self, path: str) -> tuple[int, Any]:
        return self.ask("GET", path)

    def predict(self, model: str, document: object) -> tuple[int, Any]:
        return self.ask("POST", f"/v1/models/{model}:predict", json.dumps(document).encode())

    def wait_until_ready(self) -> None:
        until(lambda: self.get("/readyz")[0] == 200, "readiness", self.process)


def read_reply(connection: http.client.HTTPConnection) -> tuple[int, Any]:
    response = connection.getresponse()
    text = response.read().decode()
    is_json = response.headers.get_content_type() == "application/json" and text
    return response.status, json.loads(text) if is_json else text


def predict_over_grpc(channel: grpc.Channel, model: str, **inputs: float) -> Any:
    """Return the PredictResponse for float32 inputs of one element."""
    request = protos.plain(protos.PredictRequest)()
    request.model_spec.name = model
    for name, value in inputs.items():
        request.inputs[name].dtype = protos.DATA_TYPES["DT_FLOAT"]
        request.inputs[name].tensor_shape.dim.add().size = 1
        request.inputs[name].float_val.append(value)
    reply: bytes = channel.unary_unary(PREDICT)(request.SerializeToString(), timeout=LONGEST_WAIT)
    return protos.plain(protos.PredictResponse).FromString(reply)


def until(condition: Callable[[], object], what: str, process: subprocess.Popen[bytes] | None = None) -> None:
    """Wait for a condition; fail if the process ends or the time is up first."""
    end = time.monotonic() + LONGEST_WAIT
    while not condition():
        if process is not None and process.poll() is not None and not condition():
            raise AssertionError(f"the server ended with {process.returncode} before {what}")
        assert time.monotonic() < end, f"no {what} within {LONGEST_WAIT:g} s"
        time.sleep(0.02)
