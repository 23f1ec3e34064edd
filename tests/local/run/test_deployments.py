"""Deployments and Services of this machine with real servers."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil
import pytest
from msgspec.structs import replace

from support.running import command_of, end_processes, processes_of, wait_until, workload_pid
from tfjob.api.objects import Deployment, ObjectMeta, OwnerReference, Pod, Service
from tfjob.controller.kind import STOPPED
from tfjob.local.jobs.runs import ensure_driven
from tfjob.local.pod.network import published
from tfjob.local.run.deployments import DeploymentKind, resumed
from tfjob.local.run.driver_lock import PROGRAM, needs_driver, start_background, suspend
from tfjob.local.run.lifetime import start_run
from tfjob.local.sandbox.pod_spec import Level
from tfjob.local.state.addresses import leases
from tfjob.local.state.home import Home
from tfjob.local.state.options import Options
from tfjob.local.state.store import Run, Store, edit, marked_for_deletion, open_state

pytestmark = pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")
"""A background driver belongs to no process, so nothing waits for it."""

SERVER = """
import http.server, os, pathlib, select, signal, sys, urllib.request
port, version, gate = int(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/peer":
            answer = urllib.request.urlopen(f"http://{sys.argv[4]}/", timeout=60).read()
        else:
            answer = str(os.getpid() if self.path == "/pid" else version).encode()
        self.send_response(503 if self.path == "/ready" and not gate.exists() else 200)
        self.end_headers()
        self.wfile.write(answer)

    def do_POST(self):
        body = self.rfile.read()  # until the client closes its sending side
        self.send_response(200)
        self.end_headers()
        self.wfile.write(str(len(body)).encode())

class Server(http.server.ThreadingHTTPServer):
    daemon_threads = False
    request_queue_size = 128

stopped = []
signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
server = Server(("", port), Handler)
server.timeout = 0.05
while not stopped:
    server.handle_request()
while select.select([server.socket], [], [], 0)[0]:  # no connection that was accepted is lost
    server.handle_request()
server.server_close()
"""
LEVELS = [pytest.param("full", marks=pytest.mark.root), "addresses", "ports"]


class Web:
    """A Deployment `web` with a Service of that name: port 80 leads to port 8080 of its pods."""

    def __init__(self, home: Home, store: Store, folder: Path) -> None:
        self.home = home
        self.store = store
        self.gate = folder / "gate"
        self.run: Run

    def start(self, level: Level = "ports", **spec: Any) -> None:
        given = {"selector": {"matchLabels": {"app": "web"}}, "template": self.template("one"), **spec}
        web = Deployment(metadata=ObjectMeta(name="web", namespace="default"), spec=given)
        options = Options(
            project=str(self.gate.parent), level=level, limits="off", warm=False, environ={"PATH": os.environ["PATH"]}
        )
        started = start_run(self.home, self.store, web, b"", options, attached=False)
        self.run = started.run
        ports = [
            {"name": "http", "port": 8000, "targetPort": "http"},
            {"name": "again", "port": 8001, "targetPort": 8080},
        ]
        owner = OwnerReference(kind="Deployment", name="web", uid=self.run.uid)
        metadata = ObjectMeta(name="web", namespace="default", owner_references=[owner])
        self.store.create_child(Service(metadata=metadata, spec={"selector": {"app": "web"}, "ports": ports}))
        start_background(self.home, self.run, started.lock)

    def template(self, version: str) -> dict[str, Any]:
        words = [sys.executable, "-c", SERVER, "8080", version, str(self.gate), "web:8000"]
        container = {
            "name": "tensorflow",
            "image": "x",
            "command": words,
            "ports": [{"name": "http", "containerPort": 8080}],
            "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 1, "timeoutSeconds": 60},
        }
        return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}

    def edit(self, **spec: Any) -> None:
        def changed(web: Deployment) -> Deployment:
            return replace(web, spec={**web.spec, **spec})

        assert self.store.update(self.run.uid, edit(Deployment, changed))

    @property
    def deployment(self) -> Deployment:
        return self.again.decode(Deployment)

    @property
    def again(self) -> Run:
        found = self.store.run(self.run.uid)
        assert found is not None
        return found

    @property
    def pods(self) -> list[Pod]:
        return self.store.children(Pod, self.run.uid)

    def url(self, port: int = 8000) -> str:
        (service,) = self.store.children(Service, self.run.uid)
        wait_until(lambda: port in published(self.store, service), 60)
        return f"http://127.0.0.1:{published(self.store, service)[port]}"

    def call(self, path: str = "/", port: int = 8000) -> str:
        with urlopen(self.url(port) + path, timeout=60) as answer:
            return str(answer.read().decode())

    def wait_ready(self, number: int) -> None:
        def complete() -> bool:
            web = self.deployment
            return web.status.observed_generation == web.metadata.generation and (
                web.status.replicas == web.status.updated_replicas == web.status.available_replicas == number
            )

        wait_until(complete, 90, lambda: f"{self.deployment.status} {[pod.status for pod in self.pods]}")
        wait_until(lambda: answers(self), 60)


def post_and_close(url: str) -> bytes:
    """What a client reads that sends a megabyte and closes its sending side."""
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), 60) as connection:
        connection.sendall(b"POST / HTTP/1.0\r\n\r\n" + bytes(1_000_000))
        connection.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    return answer.rpartition(b"\r\n")[2]


def answers(web: Web) -> bool:
    with suppress(OSError, HTTPException):
        return bool(web.call())
    return False


@pytest.fixture
def web(home: Path, tmp_path: Path) -> Iterator[Web]:
    with open_state(Home(home), write=True) as (opened, store):
        yield Web(opened, store, tmp_path)
    end_processes(home)
    for child in psutil.Process().children():
        if child.status() == psutil.STATUS_ZOMBIE:
            child.wait()  # a command would have ended before them


@contextmanager
def load(url: str) -> Iterator[list[str]]:
    """Clients that ask without a pause; yields what they were answered."""
    answered: list[str] = []
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            try:
                with urlopen(url, timeout=60) as answer:
                    answered.append(answer.read().decode())
            except (OSError, HTTPException) as error:
                answered.append(repr(error))

    clients = [threading.Thread(target=ask) for _ in range(3)]
    for client in clients:
        client.start()
    try:
        yield answered
    finally:
        over.set()
        for client in clients:
            client.join()


@pytest.mark.parametrize("level", LEVELS)
def test_a_service_forwards_to_ready_pods_alone(web: Web, level: Level) -> None:
    web.start(level, replicas=2)
    wait_until(lambda: sum(pod.status.phase == "Running" for pod in web.pods) == 2, 60)
    with pytest.raises((OSError, HTTPException)):
        web.call()
    assert not any(pod.is_ready for pod in web.pods)
    assert web.deployment.status.state == "Pending"
    web.gate.touch()
    web.wait_ready(2)
    assert web.deployment.status.state == "Running"
    assert [web.call(), web.call("/", 8001)] == ["one", "one"]
    assert web.call("/peer") == "one", "within the tree the Service has a name"
    assert post_and_close(web.url()) == b"1000000"
    reasons = [event.reason for event in web.store.events(web.run.uid)]
    assert reasons.count("ServiceReady") == 1


def test_connections_go_to_the_pods_in_turn(web: Web) -> None:
    web.gate.touch()
    web.start(replicas=3)
    web.wait_ready(3)
    wait_until(lambda: len({web.call("/pid") for _ in range(3)}) == 3, 60)
    assert len({web.call("/pid") for _ in range(3)}) == 3


def test_a_rolling_update_loses_no_request(web: Web) -> None:
    web.gate.touch()
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    web.start(replicas=2, strategy=rolling)
    web.wait_ready(2)
    with load(web.url()) as answered:
        wait_until(lambda: len(answered) > 20, 60)
        web.edit(template=web.template("two"))
        web.wait_ready(2)
        wait_until(lambda: len(web.pods) == 2, 60)
        seen = len(answered)
        wait_until(lambda: len(answered) > seen + 20, 60)
    assert set(answered) == {"one", "two"}
    assert set(answered[-10:]) == {"two"}
    present = {pod.metadata.name for pod in web.pods}
    wait_until(lambda: {name for name in leases(web.store.connection, web.run.uid) if "-" in name} == present, 60)


def test_a_new_template_that_never_gets_ready_leaves_the_old_pods(web: Web, tmp_path: Path) -> None:
    web.gate.touch()
    web.start(replicas=1)
    web.wait_ready(1)
    web.gate = tmp_path / "never"
    web.edit(template=web.template("two"))
    wait_until(lambda: [pod.status.phase for pod in web.pods] == ["Running", "Running"], 60)
    assert web.call() == "one"
    assert web.deployment.status.updated_replicas == 1
    web.gate.touch()
    web.wait_ready(1)
    wait_until(lambda: web.call() == "two", 60)


def test_a_server_that_crashes_is_restarted_and_a_lost_pod_is_replaced(web: Web) -> None:
    web.gate.touch()
    web.start()
    web.wait_ready(1)
    (pod,) = web.pods
    os.kill(workload_pid(web.home.path, pod.metadata.name), signal.SIGKILL)
    wait_until(lambda: web.pods[0].status.container_statuses[0].restart_count == 1, 60)
    web.wait_ready(1)
    assert [one.metadata.uid for one in web.pods] == [pod.metadata.uid]
    supervisors = [pid for pid in processes_of(web.home.path) if f"{pod.metadata.name}.".encode() in command_of(pid)]
    for pid in supervisors:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: [one.metadata.uid for one in web.pods] != [pod.metadata.uid] and len(web.pods) == 1, 60)
    web.wait_ready(1)


def test_scaling_stopping_and_resuming(web: Web) -> None:
    web.gate.touch()
    web.start(replicas=1)
    web.wait_ready(1)
    web.edit(replicas=3)
    web.wait_ready(3)
    web.edit(replicas=1)
    web.wait_ready(1)
    url = web.url()
    suspend(web.store, web.run.uid, DeploymentKind(), STOPPED)
    wait_until(lambda: not needs_driver(web.again), 60)
    assert (web.pods, web.deployment.status.state) == ([], "Suspended")
    wait_until(lambda: processes_of(web.home.path) == [], 60)
    web.store.update(web.run.uid, edit(Deployment, resumed))
    wait_until(lambda: ensure_driven(web.home, web.store, web.again), 60)
    web.wait_ready(1)
    assert web.url() == url
    web.store.update(web.run.uid, marked_for_deletion)
    wait_until(lambda: not web.again.current and not needs_driver(web.again), 60)
    wait_until(lambda: processes_of(web.home.path) == [], 60)


def test_a_driver_that_was_killed_leaves_servers_for_the_next_one(web: Web) -> None:
    web.gate.touch()
    web.start(replicas=2)
    web.wait_ready(2)
    uids, url = {pod.metadata.uid for pod in web.pods}, web.url()
    (driver,) = (pid for pid in processes_of(web.home.path) if PROGRAM.encode() in command_of(pid))
    os.kill(driver, signal.SIGKILL)
    wait_until(lambda: driver not in processes_of(web.home.path), 60)
    wait_until(lambda: ensure_driven(web.home, web.store, web.again), 60)
    wait_until(lambda: answers(web), 60)
    assert ({pod.metadata.uid for pod in web.pods}, web.url()) == (uids, url)


def test_a_pod_that_cannot_start_is_reported_with_what_to_do_in_one_line(web: Web) -> None:
    template = web.template("one")
    template["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": "missing"}}]
    web.start(template=template)

    def told() -> list[str]:
        events = (event for event in web.store.events(web.run.uid))
        return [event.message for event in events if event.reason == "CreateContainerConfigError"]

    wait_until(lambda: bool(told()), 60)
    assert "cannot start: ConfigMap 'missing' not found. Add a document" in told()[0]
