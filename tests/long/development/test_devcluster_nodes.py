"""A cluster with nodes runs real pods, keeps their packets on this machine, and leaves nothing behind."""

from __future__ import annotations

import importlib.util
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from devcluster import debian, images, network
from devcluster.client import Client, KubectlFailed
from devcluster.images import BUSYBOX
from devcluster.mounts import host_python, outermost
from devcluster.state import Folder
from support.clusters import NODES
from support.running import ending, wait_until

ROOT = Path(__file__).parents[3]

pytestmark = [pytest.mark.long, pytest.mark.node, pytest.mark.timeout(300)]


def pod(name: str, *command: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": BUSYBOX, "imagePullPolicy": "IfNotPresent", "command": list(command)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 0, **spec},
    }


def service(name: str, port: int, **spec: Any) -> dict[str, Any]:
    spec = {"selector": {"app": name}, "ports": [{"port": port}], **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def run(node_cluster: Client, node_namespace: str) -> Callable[..., str]:
    """Run kubectl in the namespace of the test."""
    return lambda *words, **options: node_cluster.kubectl("-n", node_namespace, *words, **options)


@pytest.fixture
def start(node_cluster: Client, node_namespace: str, run: Callable[..., str]) -> Callable[..., None]:
    """Create objects and wait until the pods among them are ready."""

    def apply(*objects: dict[str, Any]) -> None:
        node_cluster.apply(*objects, namespace=node_namespace)
        pods = [f"pod/{one['metadata']['name']}" for one in objects if one["kind"] == "Pod"]
        run("wait", "--for=condition=Ready", "--timeout=180s", *pods, timeout=240)

    return apply


def finished(run: Callable[..., str], name: str, phase: str = "Succeeded") -> str:
    """Return the log of a pod that has ended."""
    run("wait", f"--for=jsonpath={{.status.phase}}={phase}", f"pod/{name}", "--timeout=180s", timeout=240)
    return run("logs", name)


def connected(address: str, port: int) -> socket.socket:
    """Connect to a pod, which is ready before its program listens."""
    made: list[socket.socket] = []

    def connects() -> bool:
        with suppress(ConnectionRefusedError):
            made.append(socket.create_connection((address, port), timeout=30))
        return bool(made)

    wait_until(connects, 90)
    return made[0]


@pytest.mark.root
def test_every_node_is_ready(node_cluster: Client) -> None:
    nodes = node_cluster.get("nodes")["items"]
    assert [one["metadata"]["name"] for one in nodes] == [f"node-{number}" for number in range(1, NODES + 1)]


@pytest.mark.root
def test_a_pod_runs_and_its_log_exit_code_and_shell_are_there(
    start: Callable[..., None], run: Callable[..., str]
) -> None:
    start(pod("talker", "sh", "-c", "echo hello; trap 'exit 7' USR1; while :; do sleep 0.1; done"))
    wait_until(lambda: run("logs", "talker") == "hello\n", 60)
    assert run("exec", "talker", "--", "hostname") == "talker\n"
    run("exec", "talker", "--", "kill", "-USR1", "1")
    finished(run, "talker", "Failed")
    assert run("get", "pod", "talker", "-o", "jsonpath={..terminated.exitCode}") == "7"


@pytest.mark.root
def test_pods_of_different_nodes_reach_each_other_by_the_name_of_a_service(
    start: Callable[..., None], run: Callable[..., str]
) -> None:
    """With a headless Service (the pod's address) and one with an address (kube-proxy), on every pair of nodes."""
    answer = "while :; do echo reached | nc -l -p 2222; done"
    for headless in (True, False):
        name = "headless" if headless else "virtual"
        kind = {"clusterIP": "None"} if headless else {}
        start(pod(name, "sh", "-c", answer, nodeName=f"node-{NODES}"), service(name, 2222, **kind))
        for number in range(1, NODES + 1):
            asking = f"asks-{name}-{number}"
            ask = f"for i in $(seq 50); do nc -w 1 {name} 2222 </dev/null && exit 0; sleep 0.2; done; exit 1"
            run("apply", "-f", "-", stdin=_json(pod(asking, "sh", "-c", ask, nodeName=f"node-{number}")))
            assert finished(run, asking).splitlines()[-1] == "reached"  # it may have tried before


@pytest.mark.root
def test_a_pod_reaches_the_api_server_and_nothing_beyond_this_machine(
    start: Callable[..., None], run: Callable[..., str]
) -> None:
    start(pod("caller", "sleep", "600"))
    url = "https://kubernetes.default/livez"
    assert run("exec", "caller", "--", "wget", "-q", "-O-", "--no-check-certificate", url) == "ok"
    with pytest.raises(KubectlFailed, match="100% packet loss"):
        run("exec", "caller", "--", "ping", "-c", "1", "-W", "1", "1.1.1.1")


@pytest.mark.root
def test_this_machines_python_runs_in_a_pod(node_cluster: Client, node_namespace: str, run: Callable[..., str]) -> None:
    python = host_python()
    spec = python.pod_spec("-c", "import numpy, sys; print(sys.prefix, numpy.arange(3).sum())")
    node_cluster.apply({**pod("python"), "spec": spec}, namespace=node_namespace)
    assert finished(run, "python") == f"{sys.prefix} 3\n"


@pytest.mark.root
def test_an_image_that_was_loaded_runs_on_every_node(
    node_cluster: Client, node_namespace: str, run: Callable[..., str], tmp_path: Path
) -> None:
    archive, command = tmp_path / "image.tar", ["/busybox", "echo", "loaded"]
    images.write(archive, "example.test/loaded:1", {"busybox": debian.tree().program("busybox")}, command)
    node_cluster.load_image(archive)
    for number in range(1, NODES + 1):
        one = pod(f"on-{number}", nodeName=f"node-{number}")
        one["spec"]["containers"][0].update(image="example.test/loaded:1", command=command)
        node_cluster.apply(one, namespace=node_namespace)
        assert finished(run, f"on-{number}") == "loaded\n"


@pytest.mark.root
@pytest.mark.alone  # pods of others may be on that node
def test_a_node_that_lost_its_power_tells_nobody_comes_back_and_runs_its_pods_again(
    node_cluster: Client, start: Callable[..., None], run: Callable[..., str]
) -> None:
    start(pod("stays", "nc", "-ll", "-p", "2222", "-e", "cat", nodeName="node-2", restartPolicy="Always"))
    with connected(run("get", "pod", "stays", "-o", "jsonpath={.status.podIP}"), 2222) as peer:
        peer.sendall(b"there?")
        assert peer.recv(16) == b"there?"
        node_cluster.cut_power("node-2")
        peer.settimeout(2)
        with pytest.raises(TimeoutError):
            peer.recv(16)
    node_cluster.restore_power("node-2")
    run("wait", "--for=jsonpath={..restartCount}=1", "pod/stays", "--timeout=180s", timeout=240)
    run("wait", "--for=condition=Ready", "pod/stays", "--timeout=180s", timeout=240)
    assert run("exec", "stays", "--", "hostname") == "stays\n"


@pytest.mark.parametrize(
    ("paths", "expected"),
    [(["/usr", "/usr/bin", "/nowhere", "/usr"], ["/usr"]), (["/usr/bin", "/etc"], ["/usr/bin", "/etc"])],
)
def test_a_path_inside_another_is_mounted_with_it(paths: list[str], expected: list[str]) -> None:
    assert outermost(paths) == expected


@pytest.mark.root
@pytest.mark.alone  # it compares the machine before and after
def test_up_and_down_three_times_with_a_pod_leaves_the_machine_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    devcluster("build")
    before = machine()
    for _ in range(3):
        devcluster("up", "--profile", "node", "--name", "again")
        kubectl("run", "left", f"--image={BUSYBOX}", "--image-pull-policy=IfNotPresent", "--", "sleep", "600")
        kubectl("wait", "--for=condition=Ready", "pod/left", "--timeout=180s")
        link = network.of(Folder("again"))
        assert link is not None
        assert any(link.link in one for one in new(before, link))
        devcluster("down", "--name", "again")
        assert settled(before, link) == []
        assert not any((tmp_path / "state").iterdir())


@pytest.mark.root
@pytest.mark.alone  # it compares the machine before and after
@pytest.mark.parametrize("moment", [1.0, 5.0])
def test_after_a_kill_of_up_the_next_one_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: float) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    devcluster("build")
    before = machine()
    command = [sys.executable, "-m", "devcluster", "up", "--profile", "node", "--name", "again"]
    with ending(subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)):
        time.sleep(moment)
    devcluster("up", "--profile", "node", "--name", "again")
    link = network.of(Folder("again"))
    assert link is not None
    assert "Ready" in kubectl("get", "nodes")
    devcluster("down", "--name", "again")
    assert settled(before, link) == []


def machine() -> dict[str, set[str]]:
    """Return what CI checks for leftovers, and the packet filters and settings that Kubernetes usually changes."""
    tree = debian.tree()
    env = {**os.environ, **tree.environment()}
    rules: set[str] = set()
    for program in ("iptables-nft-save", "iptables-legacy-save"):
        said = subprocess.run([str(tree.program(program))], env=env, capture_output=True, text=True, check=False).stdout
        rules |= {line for line in said.splitlines() if not line.startswith(("#", ":"))}
    settings = {f"{name} {Path('/proc/sys', name).read_text()}" for name in SETTINGS}
    files = {f"{folder}/{name}" for folder in FOLDERS for name in os.listdir(folder)}
    return {**_leftovers().machine(Path("/nowhere")), "rule": rules, "setting": settings, "file": files}


SETTINGS = (
    "fs/inotify/max_user_instances",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "net/ipv4/conf/all/route_localnet",
    "net/ipv4/ip_forward",
    "net/netfilter/nf_conntrack_max",
    "vm/overcommit_memory",
)
FOLDERS = ("/etc", "/opt", "/run", "/var/lib", "/var/log")


def new(before: dict[str, set[str]], ours: network.Network) -> list[str]:
    """Return what is new, except for clusters and tests of others."""
    found = [f"{kind} {one}" for kind, now in machine().items() for one in sorted(now - before[kind])]
    blocks = [(one, re.search(r"tfjobdc(\d+)|address 10\.(\d+)\.", one)) for one in found]
    found = [one for one, block in blocks if not block or str(ours.block) in block.groups()]
    return [
        one
        for one in found
        if not one.startswith(("scratch ", "development cluster "))
        and (not one.startswith(("mount /tmp/", "cgroup ")) or "devcluster" in one)
        and not ("inotify" in one and others_have_nodes(ours))
        and ("tfjob-devcluster-" not in one or "tfjob-devcluster-again-" in one)
    ]


def others_have_nodes(ours: network.Network) -> bool:
    """Clusters share that limit."""
    links = [link for link in os.listdir("/sys/class/net") if link.startswith(network.PREFIX)]
    return any(link != ours.link for link in links)


def settled(before: dict[str, set[str]], ours: network.Network) -> list[str]:
    """Return what is new, after giving the kernel a moment to clean up."""
    deadline = time.monotonic() + 90
    while (left := new(before, ours)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return left


def devcluster(*words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "devcluster", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def kubectl(*words: str) -> str:
    line = f'eval "$({sys.executable} -m devcluster env --name again)" && kubectl "$@"'
    done = subprocess.run(
        ["bash", "-c", line, "kubectl", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _leftovers() -> ModuleType:
    spec = importlib.util.spec_from_file_location("leftovers", ROOT / "tools" / "leftovers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _json(value: object) -> str:
    import json

    return json.dumps(value)
