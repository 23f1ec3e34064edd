"""`tfjob port-forward` to a server in a replica of a job on this machine."""

from __future__ import annotations

import json
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
import yaml

from support.command_line import CommandLine
from support.running import Running, wait_until

SERVER = """
import http.server, os, time
STARTED = time.time_ns()
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"{os.environ['HOSTNAME']} {STARTED}".encode())
        if self.path == "/end":
            os._exit(1)
http.server.ThreadingHTTPServer(("0.0.0.0", 8137), Handler).serve_forever()
"""
LINE = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+) -> 8137")


@pytest.fixture
def server(cli: CommandLine, tmp_path: Path) -> Iterator[CommandLine]:
    """The job web, whose two workers answer at port 8137; a worker that ends is restarted."""
    container = {"name": "tensorflow", "image": "example.com/web", "command": ["python", "-c", SERVER]}
    worker = {"replicas": 2, "restartPolicy": "OnFailure", "template": {"spec": {"containers": [container]}}}
    spec = {"restartScope": "Task", "tfReplicaSpecs": {"Worker": worker}}
    job = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "web"}, "spec": spec}
    file = tmp_path / "web.yaml"
    file.write_text(yaml.safe_dump(job))
    cli("submit", str(file), "--no-limits")
    cli("wait", "web", "--for", "running", "--timeout", "90s")
    yield cli
    cli("delete", "web")


def answer(port: int, path: str = "/") -> str:
    """Return the answer of a server that may not be listening yet."""
    said: list[str] = []

    def heard() -> bool:
        try:
            with urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as response:
                said.append(response.read().decode())
        except OSError:
            return False
        return bool(said)

    wait_until(heard, 60)
    return said[0]


def test_connections_reach_the_replica_and_the_one_that_replaces_it(server: CommandLine) -> None:
    with Running(server.tool, server.home, "web", ":8137", ":8137", command="port-forward") as forwarding:
        forwarding.wait_for("Forwarding", count=2)
        first, second = (int(found[1]) for line in forwarding.lines if (found := LINE.fullmatch(line)))
        name, started = answer(first).split()
        assert name == "web-worker-0"
        assert answer(second) == f"{name} {started}"
        answer(first, "/end")
        wait_until(lambda: answer(first) != f"{name} {started}", 60)
        forwarding.process.send_signal(signal.SIGINT)
        assert forwarding.finish() == 0


def test_a_replica_is_chosen_by_its_name(server: CommandLine) -> None:
    with Running(server.tool, server.home, "web/worker-1", ":8137", command="port-forward") as forwarding:
        forwarding.wait_for("Forwarding")
        found = LINE.fullmatch(forwarding.lines[0])
        assert found
        assert answer(int(found[1])).startswith("web-worker-1 ")


def test_what_cannot_be_forwarded_is_one_sentence(server: CommandLine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = server("port-forward", "web", f"{port}:8137", code=2)
    assert refused.count("\n") == 2
    told = [
        refused.replace(str(port), "PORT"),
        server("port-forward", "weeb", "8137", code=3),
        server("port-forward", "web/worker-7", "8137", code=3),
        server("port-forward", "service/other", "8137", code=3),
        server("port-forward", "web", "http", code=2),
    ]
    server.golden("port-forward-errors", "".join(told))
    assert [job["name"] for job in json.loads(server("ps", "-o", "json"))["items"]] == ["web"]
