"""Leases of addresses and ports, kept in the state database so that two runs never get the same one.

Each pod, with its headless Service, and each other Service holds one loopback address, 127.77.x.y; at the lowest level
it holds ports of 20000-29999 instead, outside the ranges from which systems take ephemeral ports. A lease belongs to
an owner (the run) and a holder (the pod or the Service) and stays with them until it is released. The functions take
part in the caller's transaction.
"""

from __future__ import annotations

import hashlib
import re
import socket
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tfjob.local.sandbox import processes
from tfjob.local.state.errors import Refusal

if TYPE_CHECKING:
    import sqlite3

SCHEMA = """
create table addresses (
    ip text primary key, owner text not null, holder text not null, unique (owner, holder)
);
create table ports (
    port integer primary key, owner text not null, holder text not null, wanted integer not null,
    unique (owner, holder, wanted)
);
"""

FIRST_PORT, LAST_PORT = 20000, 29999
WILDCARD = "0.0.0.0"  # noqa: S104 - tested, never served

_HOSTS = 256 * 254
_TRIES = 8
_LISTEN = "0A"  # the state of a listening socket in /proc/net/tcp


class AddressError(Refusal):
    """No address or port can be leased; a port that something else on this machine holds is named."""


@dataclass(frozen=True)
class HostEntry:
    """A name that pods resolve: the service of a replica."""

    ip: str
    name: str
    namespace: str


def lease_address(
    database: sqlite3.Connection | sqlite3.Cursor, owner: str, holder: str, ports: Iterable[int] = ()
) -> str:
    """The address of a holder, leased if it has none; `ports` must be free there.

    Addresses are tried from a place that differs from run to run: other users of this machine have leases of their
    own in another database. When several in a row have the same port taken, it is taken on all of them.
    """
    row = database.execute("select ip from addresses where owner = ? and holder = ?", (owner, holder)).fetchone()
    if row:
        return str(row[0])
    ports = list(ports)
    taken: list[int] = []
    for ip in _candidates(f"{owner}/{holder}"):
        if database.execute("select 1 from addresses where ip = ?", (ip,)).fetchone():
            continue
        busy = next((port for port in ports if not is_free(ip, port)), None)
        if busy is None:
            database.execute("insert into addresses values (?, ?, ?)", (ip, owner, holder))
            return ip
        taken.append(busy)
        if len(taken) == _TRIES:
            raise AddressError(*taken_port(busy))
    raise AddressError("every loopback address in 127.77.0.0/16 is in use", "Stop or delete some jobs.")


def lease_port(database: sqlite3.Connection | sqlite3.Cursor, owner: str, holder: str, wanted: int) -> int:
    """The port of this machine that stands for the port `wanted` of a holder, leased if there is none."""
    row = database.execute(
        "select port from ports where owner = ? and holder = ? and wanted = ?", (owner, holder, wanted)
    ).fetchone()
    if row:
        return int(row[0])
    span = LAST_PORT - FIRST_PORT + 1
    start = _spread(f"{owner}/{holder}/{wanted}", span)
    for step in range(span):
        port = FIRST_PORT + (start + step) % span
        if database.execute("select 1 from ports where port = ?", (port,)).fetchone():
            continue
        # TensorFlow binds the wildcard whatever it is told: a test of 127.0.0.1 alone would prove nothing.
        if is_free(WILDCARD, port):
            database.execute("insert into ports values (?, ?, ?, ?)", (port, owner, holder, wanted))
            return port
    raise AddressError(f"no port from {FIRST_PORT} to {LAST_PORT} is free", "Stop or delete some jobs.")


def leases(database: sqlite3.Connection | sqlite3.Cursor, owner: str) -> dict[str, tuple[str, dict[int, int]]]:
    """Return by holder its address, if it has one, and by the port that it wanted the one that it has instead."""
    found: dict[str, tuple[str, dict[int, int]]] = {}
    for ip, holder in database.execute("select ip, holder from addresses where owner = ? order by rowid", (owner,)):
        found[holder] = ip, {}
    for port, holder, wanted in database.execute("select port, holder, wanted from ports where owner = ?", (owner,)):
        found.setdefault(holder, ("", {}))[1][wanted] = port
    return found


def release(database: sqlite3.Connection | sqlite3.Cursor, owner: str, holder: str) -> None:
    database.execute("delete from addresses where owner = ? and holder = ?", (owner, holder))
    database.execute("delete from ports where owner = ? and holder = ?", (owner, holder))


def release_owner(database: sqlite3.Connection | sqlite3.Cursor, owner: str) -> None:
    database.execute("delete from addresses where owner = ?", (owner,))
    database.execute("delete from ports where owner = ?", (owner,))


def is_free(ip: str, port: int) -> bool:
    """Whether a program could listen there now, found out by doing it."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as trial:
        if sys.platform == "linux":
            # Servers set it: connections that wind down do not count. Elsewhere it would also hide listeners.
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((ip, port))
            trial.listen(1)
        except (OSError, OverflowError):  # a number that is not a port is never free
            return False
    return True


def port_problem(ip: str, ports: Iterable[int]) -> tuple[str, str] | None:
    """What is wrong with the first port that is not free at an address, and what to do; None when all are."""
    return next((taken_port(port) for port in ports if not is_free(ip, port)), None)


def taken_port(port: int) -> tuple[str, str]:
    """Message and hint about a port that cannot be had."""
    if port < 1024 and not _holder_of(port):
        return (
            f"an ordinary user cannot listen on port {port}",
            "Use a port from 1024 up in the manifest, or run with --level ports.",
        )
    who = _holder_of(port) or "another program"
    return (
        f"port {port} is taken on this machine by {who}, which listens on every address",
        "Stop it, use another port in the manifest, or run with --level ports.",
    )


def hosts_file(entries: Iterable[HostEntry], base: str, namespace: str) -> str:
    """A hosts file for the pods of a namespace: `base` without the names that are ours, then every entry."""
    ours = {entry: _names(entry, namespace) for entry in entries}
    claimed = {name for names in ours.values() for name in names}
    lines = [kept for line in base.splitlines() if (kept := _without(line, claimed)) is not None]
    lines += [f"{entry.ip}\t{' '.join(names)}" for entry, names in ours.items()]
    return "\n".join(lines) + "\n"


def _names(entry: HostEntry, namespace: str) -> list[str]:
    full = f"{entry.name}.{entry.namespace}"
    names = [f"{full}.svc", f"{full}.svc.cluster.local", full]
    return [*names, entry.name] if entry.namespace == namespace else names


def _without(line: str, claimed: set[str]) -> str | None:
    words = re.split(r"\s+", line.partition("#")[0].strip())
    if not claimed.intersection(words[1:]):
        return line
    kept = [word for word in words[1:] if word not in claimed]
    return f"{words[0]}\t{' '.join(kept)}" if kept else None


def _candidates(seed: str) -> Iterator[str]:
    start = _spread(seed, _HOSTS)
    for step in range(_HOSTS):
        high, low = divmod((start + step) % _HOSTS, 254)
        yield f"127.77.{high}.{low + 1}"


def _spread(seed: str, span: int) -> int:
    return int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8]) % span


def _holder_of(port: int) -> str:
    """The program that listens on a port, as far as this user may know; empty where there is no /proc."""
    listening = set()
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        rows = [line.split() for line in table.read_text().splitlines()[1:]] if table.exists() else []
        listening |= {f"socket:[{row[9]}]" for row in rows if row[3] == _LISTEN and _port_of(row[1]) == port}
    for pid in processes.table() if listening else ():
        with suppress(OSError):  # another user's, or one that ends
            if any(str(link.readlink()) in listening for link in Path(f"/proc/{pid}/fd").iterdir()):
                return f"{Path(f'/proc/{pid}/comm').read_text().strip()} (process {pid})"
    return "another user's program" if listening else ""


def _port_of(address: str) -> int:
    return int(address.rpartition(":")[2], 16)
