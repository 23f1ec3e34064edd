"""Probes of real containers: commands, HTTP, TLS, TCP, and what becomes of containers that fail them."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from support.local.pod_harness import (
    DEFAULT_SIGNALS,
    EACH_LEVEL,
    FULL,
    NETWORK,
    PYTHON,
    Place,
    PodRun,
    Pods,
    at,
    odd_signals,
)
from support.ports import free_port
from tfjob.local.sandbox import processes

LISTENING = [Place("full", "user"), Place("addresses", "root")]
SERVER = """
import http.server, os, ssl, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        good = os.path.exists(sys.argv[2]) and self.path == "/health?a=b" and self.headers["X-Probe"] == "yes"
        self.send_response(200 if good else 503)
        self.send_header("Content-Length", "0")
        self.end_headers()
server = http.server.HTTPServer(("", int(sys.argv[1])), Handler)
if sys.argv[3:]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[3])
    server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""
DEAF = "import socket, sys, time; s = socket.create_server(('', int(sys.argv[1]))); time.sleep(600)"
"""It accepts connections but never answers."""


def probe(**changes: Any) -> dict[str, Any]:
    usual = {"initialDelay": 0, "period": 0.1, "timeout": 30, "successThreshold": 1, "failureThreshold": 1}
    return {**usual, "grace": None, **changes}


def shell(script: str, **changes: Any) -> dict[str, Any]:
    return probe(exec=["sh", "-c", script], **changes)


def address(pods: Pods) -> dict[str, Any]:
    """Where the first pod listens if it binds the wildcard."""
    return {"host": "127.0.0.1" if pods.level == "ports" else f"{NETWORK}.1", "port": free_port()}


def main(pod: PodRun) -> dict[str, Any]:
    return pod.find(pod.status(), "main")


def is_ready(pod: PodRun) -> bool:
    return bool(main(pod).get("ready"))


def check_readiness_follows(pod: PodRun, file: Path) -> None:
    """Readiness comes and goes with a file, and the container runs all the time."""
    pod.until(lambda: any("readiness" in warning for warning in pod.status()["warnings"]))
    assert not is_ready(pod)
    assert main(pod)["started"]
    file.touch()
    pod.until(lambda: is_ready(pod))
    file.unlink()
    pod.until(lambda: not is_ready(pod))
    assert "running" in main(pod)["state"]
    assert main(pod)["restartCount"] == 0


@at([*FULL, *EACH_LEVEL[1:]])
def test_a_command_decides_in_the_environment_of_its_container(pods: Pods) -> None:
    file = pods.folder / "ready"
    script = f'[ "$GREETING" = hello ] && [ "$(pwd)" = /usr ] && [ -e {file} ]'
    pod = pods.launch(
        pods.container("sleep", "600", cwd="/usr", probes={"readiness": shell(script)}), env={"GREETING": "hello"}
    )
    check_readiness_follows(pod, file)
    pod.stop()
    assert pod.ended()["exitCode"] == 143


@at([Place("full", "user")])
def test_a_command_sees_the_files_of_its_container(pods: Pods) -> None:
    mount = {"source": "{pod}/volumes/v", "target": "/no-such", "readOnly": False}
    script = "touch /no-such/ready; exec sleep 600"
    ready = probe(exec=["test", "-e", "/no-such/ready"])
    pod = pods.prepare(pods.container("sh", "-c", script, mounts=[mount], probes={"readiness": ready}))
    (pod.folder / "volumes" / "v").mkdir()
    pods.give(pod.folder)
    pods.start(pod, {"env": {"main": {"PATH": "/usr/bin:/bin"}}, "files": {}})
    pod.until(lambda: is_ready(pod))


@at(EACH_LEVEL)
def test_the_command_of_a_probe_has_default_signals(pods: Pods) -> None:
    with odd_signals():
        pod = pods.launch(pods.container("sleep", "600", probes={"readiness": probe(exec=DEFAULT_SIGNALS)}))
    pod.until(lambda: is_ready(pod) or pod.status()["warnings"])
    assert pod.status()["warnings"] == []


@at(LISTENING)
def test_an_http_probe_asks_with_its_path_and_headers(pods: Pods) -> None:
    file, at_address = pods.folder / "ready", address(pods)
    http = {**at_address, "tls": False, "path": "/health?a=b", "headers": [["X-Probe", "yes"]]}
    argv = [PYTHON, "-c", SERVER, str(at_address["port"]), str(file)]
    pod = pods.launch(pods.container(*argv, probes={"readiness": probe(http=http)}))
    check_readiness_follows(pod, file)


@at([Place("ports", "user")])
def test_an_https_probe_accepts_any_certificate(pods: Pods) -> None:
    file, at_address, certificate = pods.folder / "ready", address(pods), pods.folder / "both.pem"
    openssl = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=other -keyout"
    subprocess.run([*openssl.split(), certificate, "-out", f"{certificate}.crt"], check=True, capture_output=True)
    certificate.write_text(certificate.read_text() + Path(f"{certificate}.crt").read_text())
    pods.give(certificate)
    http = {**at_address, "tls": True, "path": "/health?a=b", "headers": [["X-Probe", "yes"]]}
    argv = [PYTHON, "-c", SERVER, str(at_address["port"]), str(file), str(certificate)]
    pod = pods.launch(pods.container(*argv, probes={"readiness": probe(http=http)}))
    check_readiness_follows(pod, file)


@at(EACH_LEVEL)
def test_a_tcp_probe_succeeds_once_the_port_is_open(pods: Pods) -> None:
    at_address, gate = address(pods), pods.folder / "gate"
    script = f'until [ -e {gate} ]; do sleep 0.05; done; exec {PYTHON} -c "$0" {at_address["port"]}'
    pod = pods.launch(pods.container("sh", "-c", script, DEAF, probes={"readiness": probe(tcp=at_address)}))
    pod.until(lambda: any("refused" in warning for warning in pod.status()["warnings"]))
    assert not is_ready(pod)
    gate.touch()
    pod.until(lambda: is_ready(pod))


@at(LISTENING)
def test_a_command_reaches_its_container_at_localhost(pods: Pods) -> None:
    port = address(pods)["port"]
    client = f"import socket; socket.create_connection(('localhost', {port}))"
    ready = probe(exec=[PYTHON, "-c", client])
    pod = pods.launch(pods.container(PYTHON, "-c", DEAF, str(port), probes={"readiness": ready}))
    pod.until(lambda: is_ready(pod))


@at(EACH_LEVEL)
def test_what_takes_too_long_has_failed_and_leaves_nothing(pods: Pods) -> None:
    at_address = address(pods)
    http = {**at_address, "tls": False, "path": "/", "headers": []}
    listening = {"startup": probe(tcp=at_address, failureThreshold=10_000), "readiness": probe(http=http, timeout=1)}
    pod = pods.launch(
        pods.container(PYTHON, "-c", DEAF, str(at_address["port"]), probes=listening),
        pods.container("sleep", "600", name="other", probes={"readiness": shell("sleep 601 | cat", timeout=0.3)}),
    )
    pod.until(lambda: sum("timed out" in warning for warning in pod.status()["warnings"]) == 2)
    pod.stop()
    pod.wait()
    assert processes.marked(pod.uid) == []


@at(EACH_LEVEL)
def test_a_failed_liveness_probe_ends_a_pod_that_never_restarts(pods: Pods) -> None:
    pod = pods.launch(pods.container("sleep", "600", probes={"liveness": shell("echo too sick; exit 3")}), grace=60.0)
    ended = pod.ended()
    assert ended["exitCode"] == 143
    assert "liveness" in ended["message"]
    assert ended["message"].endswith("3: too sick")
    status = pod.status()
    assert (status["phase"], len(status["warnings"])) == ("Failed", 1)


@at(EACH_LEVEL)
def test_an_unhealthy_container_is_killed_after_the_grace_of_its_probe(pods: Pods) -> None:
    file = pods.folder / "sick"
    script = f"trap '' TERM; rm -f {file}; echo up; while :; do sleep 0.1; done"
    liveness = shell(f"[ ! -e {file} ]", grace=0.5, failureThreshold=2)
    pod = pods.launch(
        pods.container("sh", "-c", script, probes={"liveness": liveness}), restartPolicy="OnFailure", grace=600.0
    )
    pod.until_logged("up")
    file.touch()
    pod.until(lambda: main(pod)["restartCount"] == 1 and "running" in main(pod)["state"])
    assert main(pod)["lastState"]["terminated"]["exitCode"] == 137
    pod.stop(grace=0)
    pod.wait()


@at([Place("ports", "user")])
def test_an_unhealthy_container_restarts_on_failure_even_if_it_exits_with_0(pods: Pods) -> None:
    script = "trap 'exit 0' TERM; while :; do sleep 0.05; done"
    pod = pods.launch(
        pods.container("sh", "-c", script, probes={"liveness": shell("false")}), restartPolicy="OnFailure"
    )
    pod.until(lambda: main(pod)["restartCount"] >= 1)
    assert main(pod)["lastState"]["terminated"]["exitCode"] == 0


@at(EACH_LEVEL)
def test_liveness_and_readiness_wait_for_the_startup_probe(pods: Pods) -> None:
    up, tried = pods.folder / "up", pods.folder / "tried"
    kinds = {
        "startup": shell(f"echo >> {tried}; [ -e {up} ]", failureThreshold=10_000),
        "readiness": shell("true"),
        "liveness": shell("false"),
    }
    pod = pods.launch(pods.container("sleep", "600", probes=kinds))
    pod.until(lambda: tried.exists() and len(tried.read_text()) > 3)
    assert "running" in main(pod)["state"]
    assert (main(pod)["started"], main(pod)["ready"], pod.status()["warnings"]) == (False, False, [])
    up.touch()
    assert "liveness" in pod.ended()["message"]


@at(EACH_LEVEL)
def test_a_failed_startup_probe_ends_the_container(pods: Pods) -> None:
    pod = pods.launch(pods.container("sleep", "600", probes={"startup": shell("false", failureThreshold=2)}))
    ended = pod.ended()
    assert ended["exitCode"] == 143
    assert "startup" in ended["message"]


@at([Place("full", "user"), Place("ports", "user")])
def test_the_next_container_waits_for_the_startup_of_a_sidecar(pods: Pods) -> None:
    up, tried = pods.folder / "up", pods.folder / "tried"
    startup = shell(f"echo >> {tried}; [ -e {up} ]", failureThreshold=10_000)
    sidecar = pods.container("sleep", "600", name="side", restartPolicy="Always", probes={"startup": startup})
    pod = pods.launch(pods.container("true"), init=[sidecar])
    pod.until(lambda: tried.exists() and len(tried.read_text()) > 3)
    assert "waiting" in main(pod)["state"]
    up.touch()
    assert pod.ended()["exitCode"] == 0


@at([Place("ports", "user")])
def test_probes_stop_when_the_container_is_told_to_end(pods: Pods) -> None:
    tried, gate = pods.folder / "tried", pods.folder / "gate"
    script = f"trap 'echo told' TERM; until [ -e {gate} ]; do sleep 0.05; done"
    liveness = shell(f"echo >> {tried}")
    pod = pods.launch(pods.container("sh", "-c", script, probes={"liveness": liveness}), grace=600.0)
    pod.until(tried.exists)
    pod.stop()
    pod.until_logged("told")
    before = tried.read_text()
    time.sleep(0.5)
    assert tried.read_text() == before
    gate.touch()
    assert pod.ended()["exitCode"] == 0


@pytest.mark.parametrize("kind", ["startup", "liveness"])
@at([Place("ports", "user")])
def test_a_first_run_waits_for_the_initial_delay(pods: Pods, kind: str) -> None:
    began = time.monotonic()
    pod = pods.launch(pods.container("sleep", "600", probes={kind: shell("false", initialDelay=1.5)}))
    assert pod.ended()["exitCode"] == 143
    assert time.monotonic() - began > 1.5
