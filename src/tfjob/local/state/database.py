"""The sqlite file behind the store: its tables, their migration, and every way in which it can be opened."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from tfjob.local.state import addresses

SCHEMA = 1
BUSY_SECONDS = 10.0
LEAST_BYTES = 64 * 1024
"""What the journal and its shared memory need to begin with."""

TABLES = """
create table counter (version integer not null);
insert into counter values (0);
create table jobs (
    uid text primary key, namespace text not null, name text not null, number integer not null,
    current integer not null, attached integer not null, boot text not null, folder text not null,
    created real not null, version integer not null, data blob not null,
    unique (namespace, name, number)
);
create unique index one_current on jobs (namespace, name) where current;
create table children (
    kind text not null, namespace text not null, name text not null, uid text not null, owner text not null,
    version integer not null, data blob not null,
    primary key (kind, namespace, name)
);
create index children_of on children (owner, kind);
create table objects (
    kind text not null, namespace text not null, name text not null, owner text not null, data blob not null,
    primary key (kind, namespace, name)
);
create table events (
    id integer primary key, job text not null, time real not null, last real not null, count integer not null,
    warning integer not null, reason text not null, message text not null
);
create index events_of on events (job);
"""

MIGRATIONS: dict[int, str] = {}
"""From a schema number to the statements that lead to the next one."""


class StoreError(Exception):
    """The state folder cannot be used: what is wrong and what to do."""


def connect(path: Path, *, write: bool) -> tuple[sqlite3.Connection, bool]:
    """A connection and whether it can write; without `write` a full or read-only disk is no obstacle."""
    if write:
        try:
            return _open_writable(path), True
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"{path}: {_reason(path, error)}; TFJOB_HOME can name another folder") from None
    if not path.exists():
        return _open_empty(), False
    try:
        return _open_writable(path), True
    except (OSError, sqlite3.Error, StoreError):
        return _open_readable(path), False


def _open_writable(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        path.chmod(0o600)
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = normal")
        _migrate(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _reason(path: Path, error: Exception) -> str:
    """What is wrong; sqlite calls a full disk an I/O error where its journal finds no room."""
    left = os.statvfs(path.parent)
    return "the disk is full" if left.f_bavail * left.f_frsize < LEAST_BYTES else str(error)


def _open_empty() -> sqlite3.Connection:
    """A state in which nothing ever happened: looking at it must leave nothing on the disk."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    _execute_all(connection, TABLES + addresses.SCHEMA)
    return connection


def _open_readable(path: Path) -> sqlite3.Connection:
    """Read-only; where the disk cannot even take the shared memory file of the journal, without that journal."""
    reason: object = "it cannot be read"
    for options in ("mode=ro", "mode=ro&immutable=1"):
        connection = sqlite3.connect(f"{path.as_uri()}?{options}", uri=True, timeout=BUSY_SECONDS, isolation_level=None)
        try:
            if _check_schema(connection, path) == 0:
                connection.close()
                return _open_empty()  # whoever made it found no room for the tables
            connection.execute("select 1 from jobs limit 1")
        except sqlite3.Error as error:
            connection.close()
            reason = error
            continue
        return connection
    raise StoreError(f"{path}: {reason}; TFJOB_HOME can name another folder")


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    if _check_schema(connection, path) == SCHEMA:
        return
    connection.execute("begin immediate")
    try:
        present = _check_schema(connection, path)
        if present == 0:
            _execute_all(connection, TABLES + addresses.SCHEMA)
        for step in range(max(present, 1), SCHEMA):
            _execute_all(connection, MIGRATIONS[step])
        connection.execute(f"pragma user_version = {SCHEMA}")
    except BaseException:
        connection.execute("rollback")
        raise
    connection.execute("commit")


def _execute_all(connection: sqlite3.Connection, statements: str) -> None:
    # executescript would commit the transaction that makes a migration all or nothing.
    for statement in statements.split(";"):
        if statement.strip():
            connection.execute(statement)


def _check_schema(connection: sqlite3.Connection, path: Path) -> int:
    (present,) = connection.execute("pragma user_version").fetchone()
    if present > SCHEMA:
        raise StoreError(
            f"{path} was written by a newer tfjob (schema {present}, this one knows {SCHEMA}); "
            "upgrade tfjob, or set TFJOB_HOME to another folder"
        )
    return int(present)
