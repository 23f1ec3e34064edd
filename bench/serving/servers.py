"""Servers as processes, their requests, and the load that h2load puts on them.

A load is bounded: it has a number of requests, from the rate of the load before, and a time limit. Every reply is
checked by its status and its size, because an error of gRPC has the HTTP status 200.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Self

import grpc
import numpy as np

from tfjob.serve import protos

HERE = Path(__file__).parent
PREDICT = "/tensorflow.serving.PredictionService/Predict"
LONGEST = 60.0
"""Seconds that a load or a start may take."""
MOST_REQUESTS = 60_000
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Request:
    """A Predict request of some images for a model, over gRPC or REST."""

    model: str
    batch: int = 1
    is_rest: bool = False

    @property
    def images(self) -> np.ndarray:
        return np.random.default_rng(0).integers(0, 255, (self.batch, 28, 28), dtype=np.uint8)

    def body(self) -> bytes:
        if self.is_rest:
            return json.dumps({"instances": self.images.tolist()}).encode()
        message = protos.PredictRequest()
        message.model_spec.name = self.model
        proto = message.inputs["images"]
        proto.dtype, proto.tensor_content = protos.DATA_TYPES["DT_UINT8"], self.images.tobytes()
        for size in self.images.shape:
            proto.tensor_shape.dim.add().size = size
        return bytes(message.SerializeToString())


@dataclass(frozen=True)
class Load:
    """Requests per second, and microseconds per request: the median and the server's CPU time."""

    rate: float
    p50: float
    cpu: float


class Server:
    """A server on free ports; its command is made from them. It has started when it answers a request for `model`."""

    def __init__(
        self, command: Callable[[int, int], list[str]], model: str, environ: dict[str, str] | None = None
    ) -> None:
        self.port, self.rest_port = free_port(), free_port()
        begun = time.perf_counter()
        self.log = Path(tempfile.mkstemp(prefix="server-", suffix=".log")[1])
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command(self.port, self.rest_port), stdout=log, stderr=log, env={**os.environ, **(environ or {})}
            )
        try:
            self._wait(Request(model).body())
        except BaseException:
            print(self.log.read_text(), file=sys.stderr)
            self.close()
            raise
        self.start_seconds = time.perf_counter() - begun
        self._rates: dict[object, float] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.log.unlink(missing_ok=True)

    def _wait(self, message: bytes) -> None:
        end = time.monotonic() + LONGEST
        while time.monotonic() < end:
            if self.process.poll() not in (None, 0):
                raise SystemExit(f"a server ended with {self.process.returncode}")
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    try:
                        self.ask(message)
                        return
                    except grpc.RpcError:
                        pass
            time.sleep(0.005)
        raise SystemExit(f"a server did not answer within {LONGEST:g} s")

    def ask(self, message: bytes) -> bytes:
        """Send one request over a new connection of gRPC."""
        options = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(f"127.0.0.1:{self.port}", options=options) as channel:
            return bytes(channel.unary_unary(PREDICT)(message, timeout=LONGEST))

    def cpu(self) -> float:
        """Return the seconds of CPU that the process has used, with the threads that have ended."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def cpu_by_thread(self) -> Counter[str]:
        """Return the seconds of CPU of the threads that run, by name."""
        found: Counter[str] = Counter()
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            name = (task / "comm").read_text().strip()
            label = "event loop" if task.name == str(self.process.pid) else re.sub(r"[-_]?\d+$", "", name)
            found[label] += int((task / "schedstat").read_text().split()[0]) / 1e9
        return found

    def anonymous(self) -> float:
        """Return the megabytes of memory that belong to the process alone."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"RssAnon:\s+(\d+) kB", text)[0]) * 1024 / 1e6

    def page(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.rest_port}{path}", timeout=LONGEST) as answer:
            return str(answer.read().decode())

    def load(self, request: Request, connections: int, seconds: float) -> Load:
        """Put requests on the server for about so many seconds, one at a time on each connection."""
        key = request, connections
        if key not in self._rates:
            self._rates[key] = self._load(request, connections, 20 * connections).rate
        count = max(10 * connections, min(int(self._rates[key] * seconds), MOST_REQUESTS))
        found = self._load(request, connections, count)
        self._rates[key] = found.rate
        return found

    def _load(self, request: Request, connections: int, count: int) -> Load:
        with tempfile.TemporaryDirectory() as name:
            body, log = Path(name, "body"), Path(name, "log")
            message = request.body()
            if request.is_rest:
                body.write_bytes(message)
                url = f"http://127.0.0.1:{self.rest_port}/v1/models/{request.model}:predict"
                words = ["--h1", "-H", "content-type: application/json", url]
            else:
                body.write_bytes(b"\0" + len(message).to_bytes(4, "big") + message)
                words = ["-H", "te: trailers", "-H", "content-type: application/grpc"]
                words.append(f"http://127.0.0.1:{self.port}{PREDICT}")
            command = ["h2load", "-n", str(count), "-c", str(connections), "-m", "1", "-d", str(body)]
            size = 0 if request.is_rest else 5 + len(self.ask(message))
            before = self.cpu()
            done = subprocess.run(
                [*command, "--log-file", str(log), *words], capture_output=True, text=True, timeout=LONGEST, check=True
            )
            cpu = self.cpu() - before
            rows = [tuple(map(int, line.split()[:3])) for line in log.read_text().splitlines()]
        data = re.findall(r"\((\d+)\) data", done.stdout)
        if len(rows) != count or {status for _, status, _ in rows} != {200} or (size and data != [str(size * count)]):
            raise SystemExit(f"not every request had a good reply:\n{done.stdout}")
        span = max(start + taken for start, _, taken in rows) - min(start for start, _, _ in rows)
        return Load(count * 1e6 / span, median(taken for _, _, taken in rows), cpu * 1e6 / count)


class Floor:
    """The signature of a model in a process of its own, without a network."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "floor.py"), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.inside = 0.0
        """Microseconds of the last call that TensorFlow's own function took."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def load(self, batch: int, seconds: float) -> Load:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{batch} {seconds}\n")
        self.process.stdin.flush()
        rate, p50, cpu, self.inside = map(float, self.process.stdout.readline().split())
        return Load(rate, p50, cpu)


def ours(base: Path, *flags: str) -> Callable[[int, int], list[str]]:
    """Return the command of the server of this project, for a model's folder."""
    words = [sys.executable, "-m", "tfjob.serve", *flags, f"--model_name={base.name}", f"--model_base_path={base}"]
    return lambda port, rest: [*words, f"--port={port}", f"--rest_api_port={rest}"]


def profiled(file: Path, base: Path) -> Callable[[int, int], list[str]]:
    """Return the command of the same server with a profile of its event loop."""
    command = ours(base)
    return lambda port, rest: [sys.executable, str(HERE / "profiled.py"), str(file), *command(port, rest)[3:]]


def reference(folder: Path) -> Callable[[int, int], list[str]]:
    return lambda port, rest: [sys.executable, str(HERE / "reference.py"), str(port), str(folder)]


def free_port() -> int:
    """Return a port that nothing uses at the moment."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def check_tools() -> None:
    if shutil.which("h2load") is None:
        raise SystemExit("h2load is not installed: apt-get install nghttp2-client")


def version(reply: bytes) -> int:
    """Return the version that a PredictResponse names."""
    return int(protos.PredictResponse.FromString(reply).model_spec.version.value)
