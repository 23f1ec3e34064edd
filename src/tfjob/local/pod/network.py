"""The addresses of a run: one for every replica's name, the same for its whole life, and how peers learn them.

At full level every pod has a hosts file, and strings stay as they are. Without mount namespaces,
`name.namespace.svc:port` in TF_CONFIG, command and environment is replaced with an address, and at the lowest level
with a port of 127.0.0.1.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tfjob.api.names import child_name
from tfjob.api.types import TFJob
from tfjob.local.sandbox.pod_spec import Level
from tfjob.local.state import addresses
from tfjob.local.state.addresses import AddressError, HostEntry
from tfjob.local.state.store import Run, Store
from tfjob.plan.facts.tasks import Task, desired
from tfjob.plan.facts.tf_config import port

HOSTS = Path("/etc/hosts")
LOOPBACK = "127.0.0.1"


class Network:
    """Leases for the replicas of one run."""

    def __init__(self, store: Store, run: Run, level: Level) -> None:
        self._store = store
        self._uid = run.uid
        self._level = level
        self._known: dict[str, Peer] = {}
        self.notes: list[str] = []

    def reserve(self) -> None:
        """Leases what the job needs now; raises AddressError before anything starts."""
        self.peers()

    def address(self, name: str) -> str:
        """The address of a replica by its service's name."""
        return next((peer.ip for peer in self.peers() if peer.name == name), LOOPBACK)

    def peers(self) -> list[Peer]:
        """Every replica that the job asks for now; new ones get their lease here."""
        run = self._store.run(self._uid)
        if run is None:
            return []
        wanted = {child_name(run.decode(TFJob), task.type, task.index): task for task in desired(run.decode(TFJob))}
        if missing := [name for name in wanted if name not in self._known]:
            with self._store.transaction() as cursor:
                for name in missing:
                    self._known[name] = self._lease(cursor, run.decode(TFJob), name, wanted[name])
        return [self._known[name] for name in wanted]

    def write_hosts(self, file: Path) -> None:
        """Writes the hosts file that all pods of the run share; in place, because they have it mounted."""
        entries = [HostEntry(peer.ip, peer.name, peer.namespace) for peer in self.peers()]
        namespace = entries[0].namespace if entries else ""
        text = addresses.hosts_file(entries, _host_table(), namespace)
        if not file.exists() or file.read_text() != text:
            file.write_text(text)

    def _lease(self, cursor: sqlite3.Cursor, job: TFJob, name: str, task: Task) -> Peer:
        wanted, namespace = port(job, task.type), job.metadata.namespace
        if self._level == "ports":
            return Peer(name, namespace, LOOPBACK, {wanted: addresses.lease_port(cursor, self._uid, name, wanted)})
        try:
            ip = addresses.lease_address(cursor, self._uid, name, [wanted])
            return Peer(name, namespace, ip, addresses.leased_ports(cursor, self._uid, name))
        except AddressError as error:
            # A program of this machine listens on that port at every address: the replica gets another port.
            ip = addresses.lease_address(cursor, self._uid, name)
            other = addresses.lease_port(cursor, self._uid, name, wanted)
            self.notes.append(f"{error.message}: {task.name} uses port {other} instead")
            return Peer(name, namespace, ip, {wanted: other})


def planned(job: TFJob, level: Level) -> list[Peer]:
    """What a network may look like, for a dry run: nothing is leased."""
    if level == "ports":
        return [
            Peer(
                child_name(job, task.type, task.index),
                job.metadata.namespace,
                LOOPBACK,
                {port(job, task.type): addresses.FIRST_PORT + number},
            )
            for number, task in enumerate(desired(job))
        ]
    return [
        Peer(
            child_name(job, task.type, task.index), job.metadata.namespace, f"127.77.{number // 254}.{number % 254 + 1}"
        )
        for number, task in enumerate(desired(job))
    ]


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
