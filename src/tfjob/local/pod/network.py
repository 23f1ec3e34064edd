"""The addresses of a run and of everything that it owns: one for every name, the same for its whole life.

At full level every pod has a hosts file, and strings stay as they are. Without mount namespaces,
`name.namespace.svc:port` in TF_CONFIG, command and environment is replaced with an address, and at the lowest level
with a port of 127.0.0.1.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tfjob.api.objects import OwnerReference, Pod, Service
from tfjob.local.sandbox.pod_spec import Level
from tfjob.local.state import addresses
from tfjob.local.state.addresses import AddressError, HostEntry
from tfjob.local.state.store import Store

HOSTS = Path("/etc/hosts")
LOOPBACK = "127.0.0.1"
TOLD_PORTS = ("tfjob-port", "tf-port")
"""Names of ports that programs are told in TF_CONFIG, so that they can be others here; other ports stay."""


class Network:
    """Leases for the pods and Services of a tree of runs; `notes` are what users should know about them."""

    def __init__(self, store: Store, root: str, level: Level) -> None:
        self._store = store
        self._root = root
        self._level = level
        self._known: dict[str, dict[str, Peer]] = {}
        """Every lease by the uid of its owner and its name; only this process makes new ones."""
        self.notes: list[str] = []

    def lease(self, child: Pod | Service) -> str:
        """Lease what a pod and its Service need, which have one name, and return the address. Raises AddressError."""
        owner, name, wanted = child.metadata.owner_references[0], child.metadata.name, told_port(child)
        known = self._leases(owner.uid, child.metadata.namespace)
        if name not in known or (self._level == "ports" and wanted not in (None, *known[name].ports)):
            with self._store.transaction() as cursor:
                made = self._new_lease(cursor, owner, name, wanted)
            known[name] = Peer(name, child.metadata.namespace, *made)
        return known[name].ip

    def _new_lease(
        self, cursor: sqlite3.Cursor, owner: OwnerReference, name: str, wanted: int | None
    ) -> tuple[str, dict[int, int]]:
        if wanted is None:
            return (LOOPBACK if self._level == "ports" else addresses.lease_address(cursor, owner.uid, name)), {}
        if self._level == "ports":
            return LOOPBACK, {wanted: addresses.lease_port(cursor, owner.uid, name, wanted)}
        try:
            return addresses.lease_address(cursor, owner.uid, name, [wanted]), {}
        except AddressError as error:
            # A program of this machine listens on that port at every address: the pod gets another port.
            ip = addresses.lease_address(cursor, owner.uid, name)
            other = addresses.lease_port(cursor, owner.uid, name, wanted)
            self.notes.append(f"{error.message}: {name.removeprefix(f'{owner.name}-')} uses port {other} instead")
            return ip, {wanted: other}

    def peers(self) -> list[Peer]:
        """Return everything that has a lease."""
        tree = self._store.tree(self._root)
        return [peer for run in tree for peer in self._leases(run.uid, run.key.namespace).values()]

    def _leases(self, owner: str, namespace: str) -> dict[str, Peer]:
        if owner not in self._known:
            leases = addresses.leases(self._store.connection, owner)
            self._known[owner] = {
                name: Peer(name, namespace, ip or LOOPBACK, ports) for name, (ip, ports) in leases.items()
            }
        return self._known[owner]

    def write_hosts(self, file: Path) -> None:
        """Write the hosts file that all pods of a run share; in place, because they have it mounted."""
        entries = [HostEntry(peer.ip, peer.name, peer.namespace) for peer in self.peers()]
        namespace = entries[0].namespace if entries else ""
        text = addresses.hosts_file(entries, _host_table(), namespace)
        if not file.exists() or file.read_text() != text:
            file.write_text(text)


def told_port(child: Pod | Service) -> int | None:
    """Return the port of a pod or a Service that its peers are told, if there is one."""
    if isinstance(child, Service):
        ports = {one.get("name"): one.get("port") for one in child.spec.get("ports") or ()}
    else:
        containers = child.spec.get("containers") or ()
        ports = {one.get("name"): one.get("containerPort") for each in containers for one in each.get("ports") or ()}
    return next((ports[name] for name in TOLD_PORTS if name in ports), None)


def planned(services: Sequence[Service], level: Level) -> list[Peer]:
    """Return what a network may look like, for a dry run: nothing is leased."""
    found = []
    for number, service in enumerate(services):
        name, namespace, wanted = service.metadata.name, service.metadata.namespace, told_port(service)
        if level != "ports":
            found.append(Peer(name, namespace, f"127.77.{number // 254}.{number % 254 + 1}"))
        else:
            ports = {} if wanted is None else {wanted: addresses.FIRST_PORT + number}
            found.append(Peer(name, namespace, LOOPBACK, ports))
    return found


def _host_table() -> str:
    try:
        return HOSTS.read_text()
    except OSError:
        return f"{LOOPBACK}\tlocalhost\n"


@dataclass(frozen=True)
class Peer:
    """A replica: its service's name, its address, and for ports that it cannot have, those that it has instead."""

    name: str
    namespace: str
    ip: str
    ports: Mapping[int, int] = field(default_factory=dict)


def rewrite_peers(text: str, peers: Iterable[Peer], *, names: bool) -> str:
    """`text` with every `peer:port` as it must read here: with `names` only ports change, without them hosts too."""
    for peer in peers:
        if peer.name in text and (peer.ports or not names):
            text = _pattern(peer).sub(partial(_address, peer, names), text)
    return text


def _pattern(peer: Peer) -> re.Pattern[str]:
    suffix = rf"(?:\.{re.escape(peer.namespace)}(?:\.svc(?:\.[a-z0-9.-]+)?)?)?"
    return re.compile(rf"(?<![\w.-])({re.escape(peer.name)}{suffix}):(\d+)")


def _address(peer: Peer, names: bool, match: re.Match[str]) -> str:
    host, port = match[1], int(match[2])
    return f"{host if names else peer.ip}:{peer.ports.get(port, port)}"
