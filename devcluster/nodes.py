"""A control plane with nodes: the network, CoreDNS and every node around it."""

from __future__ import annotations

import random
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from devcluster import build, cgroups, debian, limits, network, node, parts, room
from devcluster.control_plane import ControlPlane
from devcluster.errors import Refused, tail
from devcluster.network import Network
from devcluster.node import Node
from devcluster.room import Process, Room
from devcluster.state import Folder

SWITCH = "switch"
COREFILE = """\
.:53 {{
    bind {address}
    errors
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig {kubeconfig}
        ttl 0
    }}
}}
"""


def prepare() -> None:
    build.programs(parts.NODE)
    debian.tree()
    node.own_images()


def start(folder: Folder, count: int) -> None:
    """Start a cluster with nodes; return when every node is ready and names resolve."""
    switch = Room(folder, SWITCH)
    net = network.claim(switch)
    folder.write("network", net.block)
    limits.lift()
    net.lay(switch, count)
    plane = ControlPlane(folder, build.programs(parts.NODE), net.addresses())
    plane.start()
    _start_dns(switch, plane, net)
    members = [Node(folder, net, number) for number in range(1, count + 1)]
    for member in members:
        member.register(plane)
        member.start(switch.pid, count)
    with ThreadPoolExecutor(count) as each:
        for ready in [each.submit(member.await_ready) for member in members]:
            ready.result()
    _await_dns(folder, net)


def clear(folder: Folder) -> None:
    """Remove what outlives the processes of nodes: control groups, the inotify limit and, for a moment, a link."""
    net = network.of(folder)
    if net:
        network.await_gone(net)
        limits.put_back()
    if (folder / "rooms").exists():
        cgroups.remove(folder)


def load_image(folder: Folder, archive: Path) -> None:
    names = node.running(folder)
    if not names:
        raise Refused(f"cluster {folder.name} has no nodes to load an image into; start it with --profile node")
    for name in names:
        node.load(folder, name, archive)


def cut_power(folder: Folder, name: str) -> None:
    """Kill a node and all its pods at once, without notice; the cluster finds out when the node's lease expires."""
    lost = room.find(folder, name)
    # Remove the cable first: otherwise the kernel would close the connections of killed processes and tell their peers.
    room.ip(f"link delete {network.port(_number(name))}", room=room.find(folder, SWITCH).pid)
    room.close(lost)


def has_power(folder: Folder, name: str) -> bool:
    return name in node.running(folder)


def restore_power(folder: Folder, name: str) -> None:
    """Start a node again with its old disk and wait until it is ready."""
    net = network.of(folder)
    if net is None or has_power(folder, name):
        raise Refused(f"{name} of cluster {folder.name} is running already")
    member = Node(folder, net, _number(name))
    member.start(room.find(folder, SWITCH).pid, folder.read("shape")[1])
    member.await_ready()


def command(folder: Folder, name: str, *words: str) -> str:
    """Run a command that sees a node's files and network; return its output."""
    return room.enter(room.find(folder, name).pid, words, {})


def process(folder: Folder, name: str, program: str) -> int:
    """Return the pid of one of a node's programs, such as `kubelet`; if killed, the program is restarted."""
    parent = room.find(folder, name).pid
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, _, rest = stat.read_text().partition(" (")
        except OSError:
            continue  # it has just ended
        comm, _, fields = rest.rpartition(") ")
        state, ppid = fields.split()[:2]
        if comm == program and int(ppid) == parent and state != "Z":
            return int(pid)
    raise Refused(f"{program} of {name} is not running")


def _number(name: str) -> int:
    return int(name.removeprefix(node.PREFIX))


def _start_dns(switch: Room, plane: ControlPlane, net: Network) -> None:
    kubeconfig = plane.kubeconfig("coredns", "coredns", "system:masters")
    corefile = switch.folder / "Corefile"
    corefile.write_text(COREFILE.format(address=net.dns, kubeconfig=kubeconfig))
    switch.begin([Process("coredns", [build.binaries(parts.COREDNS) / "coredns", "-conf", corefile])])


def _await_dns(folder: Folder, net: Network, patience: float = 90) -> None:
    deadline = time.monotonic() + patience
    while not _resolves("kubernetes.default.svc.cluster.local", net.dns):
        if time.monotonic() > deadline:
            log = tail(folder.logs / f"{SWITCH}-coredns.log")
            raise Refused(f"CoreDNS does not resolve names after {patience:.0f} s; its log ends with:\n{log}")
        time.sleep(0.1)


def _resolves(name: str, server: str) -> bool:
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    query = struct.pack(">HHHHHH", random.getrandbits(16), 0x0100, 1, 0, 0, 0) + labels + b"\0\0\x01\0\x01"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(1)
        try:
            asking.sendto(query, (server, 53))
            answer = asking.recv(512)
        except OSError:
            return False
    return answer[3] & 0x0F == 0 and struct.unpack(">H", answer[6:8])[0] > 0
