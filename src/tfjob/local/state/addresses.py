"""Leases of addresses and ports, kept in the state database so that two runs never get the same one.

Each pod (with its headless Service) and each other Service holds one loopback address, 127.77.x.y. At the lowest level
it holds ports from 20000 to 29999 instead, outside the ranges of ephemeral ports. A lease belongs to an owner (the run)
and a holder (the pod or the Service) until it is released. The functions run in the caller's transaction.
"""

from __future__ import annotations

import hashlib
import socket
import sqlite3
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from tfjob.local.sandbox import processes
from tfjob.local.state.errors import Refusal

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
    """No address or port can be leased; the message names a port that another program holds."""


def lease_address(
    database: sqlite3.Connection | sqlite3.Cursor, owner: str, holder: str, ports: Iterable[int] = ()
) -> str:
    """Return the address of a holder, and lease one if it has none; `ports` must be free at that address.

    The first address to try differs between runs, because other users of this machine have their own database. If a
    port is taken at several addresses in a row, a program holds it at every address.
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
    """Return the port of this machine that replaces port `wanted` of a holder, and lease one if there is none."""
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
        # TensorFlow always binds the wildcard address, so 127.0.0.1 alone is not enough.
        if is_free(WILDCARD, port):
            database.execute("insert into ports values (?, ?, ?, ?)", (port, owner, holder, wanted))
            return port
    raise AddressError(f"no port from {FIRST_PORT} to {LAST_PORT} is free", "Stop or delete some jobs.")


def leases(database: sqlite3.Connection | sqlite3.Cursor, owner: str) -> dict[str, tuple[str, dict[int, int]]]:
    """Return by holder its address, or an empty string, and its leased ports by the port that they replace."""
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
    """Return whether a program could listen there now, by trying it."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as trial:
        if sys.platform == "linux":
            # As servers do, ignore connections that are closing. On other systems this would also ignore listeners.
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((ip, port))
            trial.listen(1)
        except (OSError, OverflowError):  # an invalid port is never free
            return False
    return True


def taken_port(port: int) -> tuple[str, str]:
    holder = holder_of(port)
    if port < 1024 and not holder:
        hint = "Use a port from 1024 up in the manifest, or run with --level ports."
        return f"an ordinary user cannot listen on port {port}", hint
    holder = holder or "another program"
    hint = "Stop it, use another port in the manifest, or run with --level ports."
    return f"port {port} is taken on this machine by {holder}, which listens on every address", hint


def _candidates(seed: str) -> Iterator[str]:
    start = _spread(seed, _HOSTS)
    for step in range(_HOSTS):
        high, low = divmod((start + step) % _HOSTS, 254)
        yield f"127.77.{high}.{low + 1}"


def _spread(seed: str, span: int) -> int:
    return int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8]) % span


def holder_of(port: int) -> str:
    """Return the program that listens on a port, if this user can see it; empty without /proc."""
    tables = [Path("/proc/net/tcp"), Path("/proc/net/tcp6")]
    rows = [line.split() for table in tables if table.exists() for line in table.read_text().splitlines()[1:]]
    at_port = [row for row in rows if row[3] == _LISTEN and int(row[1].rpartition(":")[2], 16) == port]
    listening = {f"socket:[{row[9]}]" for row in at_port}
    for pid in processes.table() if listening else ():
        with suppress(OSError):  # a process of another user, or one that ends
            if any(_target(link) in listening for link in Path(f"/proc/{pid}/fd").iterdir()):
                return f"{Path(f'/proc/{pid}/comm').read_text().strip()} (process {pid})"
    return "another user's program" if listening else ""


def _target(descriptor: Path) -> str:
    try:
        return str(descriptor.readlink())
    except FileNotFoundError:  # closed since the folder was listed
        return ""
