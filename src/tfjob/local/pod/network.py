"""The addresses of a run and of everything that it owns: one per name, unchanged for the life of the run.

A pod has the address of its headless Service, which has the same name. Any other Service with a selector has its own
address, where the driver forwards connections, and ports of 127.0.0.1 for browsers.

At level full every pod has a hosts file, and strings do not change. Without mount namespaces,
`name.namespace.svc:port` in TF_CONFIG, command and environment is replaced with an address, and at the lowest level
with a port of 127.0.0.1. A pod that cannot have its port gets another one, if its command or its environment names the
port.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tfjob.api.objects import SAME_PORTS, OwnerReference, Pod, Service
from tfjob.api.resources import DEPLOYMENTS
from tfjob.local.sandbox.pod_spec import Level
from tfjob.local.state import addresses
from tfjob.local.state.addresses import AddressError
from tfjob.local.state.store import Store

HOSTS = Path("/etc/hosts")
LOOPBACK = "127.0.0.1"
TOLD_PORTS = ("tfjob-port", "tf-port")
"""Names of ports that programs read from TF_CONFIG, so that other ports can replace them."""
FOR_BROWSERS = f"@{LOOPBACK}"
"""Suffix of a Service's name in the leases of its ports of 127.0.0.1."""


class Network:
    """Leases for the pods and Services of a tree of runs; `notes` are messages for users about them."""

    def __init__(self, store: Store, root: str, level: Level) -> None:
        self._store = store
        self._root = root
        self._level = level
        self._known: dict[str, dict[str, Peer]] = {}
        """All leases by the uid of the owner and by name; only this process adds leases."""
        self.notes: list[str] = []
        self.version = 0
        """Changes with every lease."""

    def lease(self, child: Pod | Service) -> str:
        """Lease what a pod and its Service of the same name need, and return the address. Raises AddressError."""
        owner, name, wanted = child.metadata.owner_references[0], child.metadata.name, told_ports(child)
        known = self._leases(owner.uid, child.metadata.namespace)
        if name not in known or (self._level == "ports" and not known[name].ports.keys() >= set(wanted)):
            with self._store.transaction() as cursor:
                made = self._new_lease(cursor, owner, name, wanted)
            known[name] = Peer(name, child.metadata.namespace, *made)
            self.version += 1
        return known[name].ip

    def _new_lease(
        self, cursor: sqlite3.Cursor, owner: OwnerReference, name: str, wanted: Sequence[int]
    ) -> tuple[str, dict[int, int]]:
        if self._level == "ports":
            return LOOPBACK, {port: addresses.lease_port(cursor, owner.uid, name, port) for port in wanted}
        try:
            return addresses.lease_address(cursor, owner.uid, name, wanted), {}
        except AddressError as error:
            if not wanted:
                raise
            # Another program listens on that port at every address, so the pod gets another port.
            ip = addresses.lease_address(cursor, owner.uid, name)
            others = {port: addresses.lease_port(cursor, owner.uid, name, port) for port in wanted}
            shown = ", ".join(map(str, others.values()))
            # As users know it: the replica of a job, or the pod of a Deployment.
            called = name if owner.kind == DEPLOYMENTS.kind else name.removeprefix(f"{owner.name}-")
            self.notes.append(f"{error.message}: {called} uses port {shown} instead")
            return ip, others

    def publish(self, service: Service) -> dict[int, int]:
        """Return the port of 127.0.0.1 for each port of a forwarded Service, and lease those that are missing.

        A Service with the annotation SAME_PORTS leases none: they must be free while it listens.
        """
        found = published(self._store, service)
        wanted = told_ports(service)
        missing = [port for port in wanted if port not in found]
        if missing:
            owner, name = service.metadata.owner_references[0], f"{service.metadata.name}{FOR_BROWSERS}"
            with self._store.transaction() as cursor:
                found |= {port: addresses.lease_port(cursor, owner.uid, name, port) for port in missing}
        return {port: found[port] for port in wanted}

    def release(self, pod: Pod) -> None:
        """Release the leases of a pod whose name is not used again."""
        owner, name = pod.metadata.owner_references[0], pod.metadata.name
        if self._leases(owner.uid, pod.metadata.namespace).pop(name, None) is not None:
            with self._store.transaction() as cursor:
                addresses.release(cursor, owner.uid, name)
            self.version += 1

    def at(self, child: Pod | Service, port: int) -> tuple[str, int]:
        known = self._leases(child.metadata.owner_references[0].uid, child.metadata.namespace)
        peer = known.get(child.metadata.name)
        return (peer.ip, peer.ports.get(port, port)) if peer else (LOOPBACK, port)

    def peers(self) -> list[Peer]:
        tree = self._store.tree(self._root)
        return [peer for run in tree for peer in self._leases(run.uid, run.key.namespace).values()]

    def _leases(self, owner: str, namespace: str) -> dict[str, Peer]:
        if owner not in self._known:
            leases = addresses.leases(self._store.connection, owner)
            self._known[owner] = {
                name: Peer(name, namespace, ip or LOOPBACK, ports)
                for name, (ip, ports) in leases.items()
                if not name.endswith(FOR_BROWSERS)
            }
        return self._known[owner]

    def write_hosts(self, file: Path) -> None:
        """Write the hosts file that all pods of a run share; in place, because the pods have it mounted."""
        try:
            base = HOSTS.read_text()
        except OSError:
            base = f"{LOOPBACK}\tlocalhost\n"
        text = hosts_file(self.peers(), base)
        if not file.exists():
            file.write_text(text)
        elif file.read_text() != text:
            with file.open("r+") as hosts:  # never empty, because a pod may read it at any time
                hosts.write(text)
                hosts.truncate()


def is_forwarded(service: Service) -> bool:
    """Return whether the driver forwards the ports of a Service; other Services are names of single replicas."""
    spec = service.spec
    headless = spec.get("clusterIP") == "None" or any(one.get("name") in TOLD_PORTS for one in spec.get("ports") or ())
    return bool(spec.get("selector")) and not headless and spec.get("type") != "ExternalName"


def with_address(service: Service, pods: Iterable[Pod]) -> Service:
    """Turn a headless Service of a manifest into a forwarded one: on this machine, a name has only one address."""
    # Its ports become those of the containers, because clients of a headless Service connect to pods directly.
    if service.spec.get("clusterIP") != "None":
        return service
    numbers: dict[int, None] = {}
    for pod in pods:
        named = (pod.port(one.get("targetPort") or one["port"]) for one in tcp_ports(service))
        declared = (one for container in pod.spec.get("containers") or () for one in container.get("ports") or ())
        open_ports = (one["containerPort"] for one in declared if one.get("protocol", "TCP") == "TCP")
        numbers |= dict.fromkeys(number for number in (*named, *open_ports) if number is not None)
    spec = {name: value for name, value in service.spec.items() if name not in ("clusterIP", "clusterIPs")}
    return replace(service, spec={**spec, "ports": [{"port": number} for number in numbers]})


def told_ports(child: Pod | Service) -> list[int]:
    """Return the ports of a pod or a Service that programs read from strings, so that others can replace them."""
    if isinstance(child, Service):
        if is_forwarded(child):
            return [one["port"] for one in tcp_ports(child)]
        return [one["port"] for one in child.spec.get("ports") or () if one.get("name") in TOLD_PORTS][:1]
    declared = [one for container in child.spec.get("containers") or () for one in container.get("ports") or ()]
    replica = [one["containerPort"] for one in declared if one.get("name") in TOLD_PORTS][:1]
    return list(dict.fromkeys([*replica, *own_ports(child)]))


def tcp_ports(service: Service) -> list[dict[str, Any]]:
    return [one for one in service.spec.get("ports") or () if one.get("protocol", "TCP") == "TCP"]


def own_ports(pod: Pod) -> list[int]:
    """Return the ports that a container declares and that its command or its environment names."""
    found = []
    for container in pod.spec.get("containers") or ():
        texts = [*(container.get("command") or ()), *(container.get("args") or ())]
        texts += [str(one.get("value") or "") for one in container.get("env") or ()]
        declared = [one for one in container.get("ports") or () if one.get("name") not in TOLD_PORTS]
        for port in (one["containerPort"] for one in declared):
            if port not in found and any(_own_port(port).search(text) for text in texts):
                found.append(port)
    return found


def published(store: Store, service: Service) -> dict[int, int]:
    """Return the leased port of 127.0.0.1 for each port of a forwarded Service that has one."""
    if SAME_PORTS in service.metadata.annotations:
        return {port: port for port in told_ports(service)}
    owner, name = service.metadata.owner_references[0].uid, service.metadata.name
    leases = addresses.leases(store.connection, owner)
    address, ports = leases.get(name, ("", {}))
    return dict(leases.get(f"{name}{FOR_BROWSERS}", ("", {}))[1] if address else ports)


def taken_host_port(service: Service) -> tuple[int, str] | None:
    """Return a port that a Service needs at 127.0.0.1 and that another program has, with that program's name."""
    needed = told_ports(service) if SAME_PORTS in service.metadata.annotations else []
    taken = next((port for port in needed if not addresses.is_free(LOOPBACK, port)), None)
    return None if taken is None else (taken, addresses.holder_of(taken) or "another program")


def planned(services: Sequence[Service], level: Level) -> list[Peer]:
    """Return an example of the network, for a dry run: nothing is leased."""
    found = []
    for number, service in enumerate(services):
        address, ports = f"127.77.{number // 254}.{number % 254 + 1}", dict[int, int]()
        if level == "ports":
            address, ports = LOOPBACK, dict.fromkeys(told_ports(service), addresses.FIRST_PORT + number)
        found.append(Peer(service.metadata.name, service.metadata.namespace, address, ports))
    return found


def hosts_file(peers: Sequence[Peer], base: str) -> str:
    """Return `base` without the names of the peers, then the peers; pods run in the namespace of the first one."""
    names = {peer: _names(peer, peers[0].namespace) for peer in peers}
    taken = {name for some in names.values() for name in some}
    lines = [kept for line in base.splitlines() if (kept := _without(line, taken)) is not None]
    return "\n".join([*lines, *(f"{peer.ip}\t{' '.join(some)}" for peer, some in names.items())]) + "\n"


def _names(peer: Peer, namespace: str) -> list[str]:
    full = f"{peer.name}.{peer.namespace}"
    short = [peer.name] if peer.namespace == namespace else []
    return [f"{full}.svc", f"{full}.svc.cluster.local", full, *short]


def _without(line: str, taken: set[str]) -> str | None:
    address, *names = line.partition("#")[0].split() or [""]
    if taken.isdisjoint(names):
        return line
    kept = [name for name in names if name not in taken]
    return f"{address}\t{' '.join(kept)}" if kept else None


@dataclass(frozen=True)
class Peer:
    """A pod or Service: its name, its address, and the ports that replace the ones it cannot have."""

    name: str
    namespace: str
    ip: str
    ports: Mapping[int, int] = field(default_factory=dict, hash=False)


def rewrite_peers(text: str, peers: Iterable[Peer], *, names: bool) -> str:
    """Replace the port, and without `names` also the host, of every `peer:port` in `text`."""
    for peer in peers:
        if peer.name in text and (peer.ports or not names):
            text = _pattern(peer).sub(partial(_address, peer, names), text)
    return text


def rewrite_own_ports(text: str, pod: Pod, ports: Mapping[int, int]) -> str:
    for port in own_ports(pod) if ports else ():
        if port in ports:
            text = _own_port(port).sub(rf"\g<1>{ports[port]}", text)
    return text


def _own_port(port: int) -> re.Pattern[str]:
    """Match a port as servers get it: `8080`, `--port=8080`, `0.0.0.0:8080`; not after the name of another host."""
    host = r"(?:0\.0\.0\.0|127\.0\.0\.1|localhost|\[::\]|\*)?:"
    return re.compile(rf"(?<![^\s=])((?:{host})?){port}(?!\S)")


def _pattern(peer: Peer) -> re.Pattern[str]:
    suffix = rf"(?:\.{re.escape(peer.namespace)}(?:\.svc(?:\.[a-z0-9.-]+)?)?)?"
    return re.compile(rf"(?<![\w.-])({re.escape(peer.name)}{suffix}):(\d+)")


def _address(peer: Peer, names: bool, match: re.Match[str]) -> str:
    host, port = match[1], int(match[2])
    return f"{host if names else peer.ip}:{peer.ports.get(port, port)}"
