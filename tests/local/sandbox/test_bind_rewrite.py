"""Every pod has its own address: the same port in many pods, localhost inside each."""

from __future__ import annotations

import socket

import pytest

from support.local.pod_harness import NETWORK, PYTHON, Place, Pods, at

WITH_ADDRESS = [Place(level, who) for level in ("full", "addresses") for who in ("root", "user")]

SERVER = """
import socket, sys, time
server = socket.create_server(("", PORT))
print(server.getsockname()[0], flush=True)
server.accept()[0].sendall(sys.argv[1].encode())
"""
CLIENT = """
import socket, time
for host in HOSTS:
    for _ in range(5000):
        try:
            print(socket.create_connection((host, PORT)).recv(9).decode(), flush=True)
            break
        except OSError:
            time.sleep(0.02)
"""


@at(WITH_ADDRESS)
def test_two_pods_listen_on_the_same_port_at_once_and_each_answers_on_its_address(pods: Pods) -> None:
    code = SERVER.replace("PORT", "2222")
    servers = [pods.launch(pods.container(PYTHON, "-c", code, f"pod{n}")) for n in range(2)]
    for number, pod in enumerate(servers):
        pod.until_logged(f"{NETWORK}.{number + 1}")
    client = CLIENT.replace("PORT", "2222").replace("HOSTS", f"('{NETWORK}.1', '{NETWORK}.2')")
    pod = pods.launch(pods.container(PYTHON, "-c", client))
    pod.ended()
    assert pod.log() == "pod0\npod1\n"
    assert [one.wait()["ports"] for one in servers] == [[2222], [2222]]


@at(WITH_ADDRESS)
def test_localhost_inside_a_pod_is_its_own_listener_over_ipv4_and_ipv6(pods: Pods) -> None:
    code = """
import socket, threading
def check(family, bind, connect):
    with socket.socket(family) as server:
        server.bind((bind, 2223)); server.listen()
        with socket.socket(family) as client:
            client.connect((connect, 2223))
            print(client.getpeername()[0].removeprefix("::ffff:"))
check(socket.AF_INET, "0.0.0.0", "127.0.0.1")
server = socket.socket(socket.AF_INET6)
server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
server.bind(("::", 2224)); server.listen()
client = socket.socket(socket.AF_INET6); client.connect(("::1", 2224))
print(client.getpeername()[0].removeprefix("::ffff:"))
"""
    if not socket.has_ipv6:
        pytest.fail("these tests need IPv6 sockets")
    pod = pods.launch(pods.container(PYTHON, "-c", code))
    assert pod.ended()["exitCode"] == 0, pod.log()
    assert pod.log() == f"{NETWORK}.1\n{NETWORK}.1\n"


@at(WITH_ADDRESS)
def test_a_server_on_ipv6_alone_is_told_that_the_address_is_not_available(pods: Pods) -> None:
    """asyncio, for one, then goes on with IPv4."""
    code = (
        "import socket; s = socket.socket(socket.AF_INET6); s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)\n"
        "try: s.bind(('::', 2225))\n"
        "except OSError as error: print(error.strerror)\n"
    )
    pod = pods.launch(pods.container(PYTHON, "-c", code))
    pod.ended()
    assert pod.log() == "Cannot assign requested address\n"


@at(WITH_ADDRESS)
def test_a_port_that_is_taken_at_the_pods_address_is_refused(pods: Pods) -> None:
    with socket.create_server((f"{NETWORK}.1", 0)) as taken:
        port = taken.getsockname()[1]
        code = f"import socket; socket.create_server(('', {port}))"
        pod = pods.launch(pods.container(PYTHON, "-c", code))
        assert pod.ended()["exitCode"] == 1
    assert "Address already in use" in pod.log()
    assert pod.status()["ports"] == []


@at([Place("full", "user")])
def test_threads_and_children_are_covered_and_the_outside_world_stays_reachable(pods: Pods) -> None:
    code = """
import os, socket, threading
def serve(port): print(socket.create_server(("", port)).getsockname()[0], flush=True)
thread = threading.Thread(target=serve, args=(2226,)); thread.start(); thread.join()
if os.fork() == 0:
    serve(2227); os._exit(0)
os.wait()
with socket.create_server(("127.0.0.1", 0)) as ephemeral:
    print(ephemeral.getsockname()[0])
    socket.create_connection(ephemeral.getsockname()).close()
a, b = socket.socketpair()
name = "\\0tfjob-test-%d" % os.getpid()
unix = socket.socket(socket.AF_UNIX); unix.bind(name); unix.listen(); socket.socket(socket.AF_UNIX).connect(name)
"""
    pod = pods.launch(pods.container(PYTHON, "-c", code))
    assert pod.ended()["exitCode"] == 0, pod.log()
    assert pod.log() == f"{NETWORK}.1\n{NETWORK}.1\n127.0.0.1\n"


@at([Place("full", "user"), Place("addresses", "user")])
def test_a_pod_without_an_address_uses_the_hosts(pods: Pods) -> None:
    code = "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); print(s.getsockname()[0])"
    pod = pods.launch(pods.container(PYTHON, "-c", code), ip="")
    pod.ended()
    assert pod.log() == "127.0.0.1\n"
