"""The network of a cluster with nodes, isolated on this machine.

One room is the switch: a bridge with a cable to every node, and CoreDNS. One more cable leads to the machine (its only
visible link), so that pods and the API server, which runs there, reach each other. No room has a default route and the
machine forwards nothing for them, so packets to other networks have no route.

    10.B.0.1                 this machine: the API server
    10.B.0.2                 the switch: CoreDNS
    10.B.0.10 + N            node N
    10.B.(16 + N).0/24       the pods of node N
    10.B.128.0/17            services
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import time
from pathlib import Path

from devcluster.control_plane import Addresses
from devcluster.errors import Refused
from devcluster.room import Room, ip, run
from devcluster.state import Folder

BLOCKS = range(224, 240)
PREFIX = "tfjobdc"


class Network:
    """The addresses and cables of a cluster; `block` is the B above."""

    def __init__(self, block: int) -> None:
        self.block = block
        self.link = f"{PREFIX}{block}"
        self.machine = f"10.{block}.0.1"
        self.dns = f"10.{block}.0.2"
        self.all_pods = f"10.{block}.16.0/20"
        self.services = f"10.{block}.128.0/17"
        self.first_service = f"10.{block}.128.1"

    def node(self, number: int) -> str:
        return f"10.{self.block}.0.{10 + number}"

    def pods(self, number: int) -> str:
        return f"10.{self.block}.{16 + number}.0/24"

    def addresses(self) -> Addresses:
        return Addresses(self.machine, self.services, self.first_service, has_nodes=True)

    def lay(self, switch: Room, nodes: int) -> None:
        """Create the bridge, its cable to the machine, and the routes to the pods."""
        ways = [f"route add {self.pods(number)} via {self.node(number)}" for number in range(1, nodes + 1)]
        switch.ip(
            "link set lo up",
            "link add br0 type bridge",
            "link set machine master br0 up",
            f"address add {self.dns}/24 dev br0",
            "link set br0 up",
            *ways,
        )
        ip(
            f"address add {self.machine}/24 dev {self.link}",
            f"link set {self.link} up",
            *ways,
            f"route add {self.services} via {self.node(1)}",
        )

    def plug(self, switch: int, node: Room, number: int, nodes: int) -> None:
        """Create a node's cable and its routes to the pods of other nodes."""
        ip(
            f"link add {port(number)} type veth peer name eth0 netns {node.pid}",
            f"link set {port(number)} master br0 up",
            room=switch,
        )
        others = [other for other in range(1, nodes + 1) if other != number]
        node.ip(
            "link set lo up",
            f"address add {self.node(number)}/24 dev eth0",
            "link set eth0 up",
            # kube-proxy translates service addresses to pods; packets to unknown ones end at the switch.
            f"route add {self.services} via {self.dns}",
            *(f"route add {self.pods(other)} via {self.node(other)}" for other in others),
        )


def port(number: int) -> str:
    return f"port{number}"


def claim(switch: Room) -> Network:
    """Return a network whose addresses are free, with the cable from this machine to the switch."""
    for block in BLOCKS:
        network = Network(block)
        if not _used(block):
            with contextlib.suppress(Refused):  # another cluster has just taken it
                ip(f"link add {network.link} type veth peer name machine netns {switch.pid}")
                return network
    raise Refused(f"every network from 10.{BLOCKS[0]}.0.0/16 to 10.{BLOCKS[-1]}.0.0/16 is in use on this machine")


def await_gone(network: Network) -> None:
    """Wait until the machine's end of the cable is gone with the switch; the kernel takes a moment."""
    deadline = time.monotonic() + 5
    while Path(f"/sys/class/net/{network.link}").exists():
        if time.monotonic() > deadline:
            ip(f"link delete {network.link}")
        time.sleep(0.02)


def of(folder: Folder) -> Network | None:
    block = folder.read("network")
    return Network(block) if block else None


def _used(block: int) -> bool:
    ours = ipaddress.ip_network(f"10.{block}.0.0/16")
    for route in json.loads(run(["ip", "-json", "-4", "route", "show", "table", "all"])):
        with contextlib.suppress(ValueError):  # "default" is not a network
            if ipaddress.ip_network(route["dst"], strict=False).overlaps(ours):
                return True
    return False
