"""The sqlite file of the store: its tables, their migration, and the ways to open it."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from tfjob.errors import UserError
from tfjob.local.state import addresses

SCHEMA = 2
BUSY_SECONDS = 10.0
"""How long a process waits while others write; a constant, because completion in a shell must not load `durations`."""
LEAST_BYTES = 64 * 1024
"""The space that the journal and its shared memory need at first."""

OBJECTS = """
create table objects (
    uid text primary key, kind text not null, namespace text not null, name text not null, owner text not null,
    current integer not null, version integer not null, data blob not null
);
create unique index one_current on objects (kind, namespace, name) where current;
create index owned_by on objects (owner, kind);
create table runs (
    uid text primary key, number integer not null, attached integer not null, boot text not null,
    folder text not null, created real not null, root text not null, settled_until real
);
create index runs_of_root on runs (root);
create table events (
    id integer primary key, about text not null, time real not null, last real not null, count integer not null,
    warning integer not null, reason text not null, message text not null
);
create index events_about on events (about);
"""
"""`owner` is the uid of the object that owns a child, or empty.

A run is what only this machine knows about an object. The driver of run `root` drives it, so `attached`, `boot` and
`settled_until` are only used for roots. A run needs no driver until `settled_until`; null means that it needs one now.
"""

COUNTER = """
create table counter (version integer not null);
insert into counter values (0);
"""
TABLES = (COUNTER, OBJECTS, addresses.SCHEMA)

SET_ASIDE_1 = """
alter table objects rename to old_objects;
alter table events rename to old_events;
drop index one_current;
drop index events_of;
"""
MOVE_1 = """
insert into objects select uid, 'TFJob', namespace, name, '', current, version, data from jobs order by created;
insert into objects select uid, kind, namespace, name, owner, 1, version, data from children order by rowid;
insert or ignore into objects
    select lower(hex(randomblob(16))), kind, namespace, name, owner, 1, 0, data from old_objects;
insert into runs select uid, number, attached, boot, folder, created, uid, null from jobs;
insert into events select id, job, time, last, count, warning, reason, message from old_events;
update runs set settled_until = 9e999 where uid in (
    select uid from (select uid, current, cast(data as text) as job from jobs)
    where not exists (
        select 1 from (select owner, kind, cast(data as text) as pod from children)
        where owner = uid and kind = 'Pod' and (
            json_extract(pod, '$.metadata.deletionTimestamp') is not null
            or coalesce(json_extract(pod, '$.status.phase'), '') not in ('Succeeded', 'Failed')
            or json_extract(job, '$.status.state') = 'Suspended'
        )
    ) and (
        not current
        or json_extract(job, '$.metadata.deletionTimestamp') is null and (
            json_extract(job, '$.spec.runPolicy.ttlSecondsAfterFinished') is null and exists (
                select 1 from json_each(job, '$.status.conditions') where json_extract(value, '$.status') = 'True'
                and json_extract(value, '$.type') in ('Succeeded', 'Failed')
            )
            or json_extract(job, '$.spec.runPolicy.suspend') and json_extract(job, '$.status.state') = 'Suspended'
        )
    )
);
drop table jobs;
drop table children;
drop table old_objects;
drop table old_events;
"""
OTHER_HOME = "To use another folder, set TFJOB_HOME."
MIGRATIONS: dict[int, tuple[str, ...]] = {1: (SET_ASIDE_1, OBJECTS, MOVE_1)}
"""By schema number, the statements that migrate to the next schema."""


class StoreError(UserError):
    """The state folder cannot be used: the reason and what to do."""


def connect(path: Path, *, write: bool) -> tuple[sqlite3.Connection, bool]:
    """Return a connection and whether it can write; without `write` this also works on a full or read-only disk."""
    if write:
        try:
            return _open_writable(path), True
        except (OSError, sqlite3.Error) as error:
            # Sqlite reports an I/O error if its journal finds no room.
            reason = "the disk is full" if is_disk_full(path) else error
            raise StoreError(f"cannot open {path}: {reason}", OTHER_HOME) from None
    if not path.exists():
        if path.parent.exists() and not path.parent.is_dir():
            raise StoreError(f"the state folder {path.parent} is a file", OTHER_HOME)
        return _open_empty(), False
    try:
        return _open_writable(path), True
    except (OSError, sqlite3.Error, StoreError):
        return _open_readable(path), False


def job_names(path: Path, namespace: str) -> list[str]:
    """Return the names of current runs, for shell completion, faster than a store; the database need not exist."""
    connection, _ = connect(path, write=False)
    try:
        query = "select name from objects join runs using (uid) where current and namespace = ?"
        return [name for (name,) in connection.execute(query, (namespace,))]
    finally:
        connection.close()


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


def is_disk_full(path: Path) -> bool:
    left = os.statvfs(path.parent)
    return left.f_bavail * left.f_frsize < LEAST_BYTES


def _open_empty() -> sqlite3.Connection:
    """Return a database in memory without any runs, so that reading creates no file."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    _execute_all(connection, *TABLES)
    return connection


def _open_readable(path: Path) -> sqlite3.Connection:
    """Open read-only; without the journal if the disk has no room for its shared memory file."""
    reason: object = "it cannot be read"
    for options in ("mode=ro", "mode=ro&immutable=1"):
        connection = sqlite3.connect(f"{path.as_uri()}?{options}", uri=True, timeout=BUSY_SECONDS, isolation_level=None)
        try:
            if _check_schema(connection, path) == 0:
                connection.close()
                return _open_empty()  # the disk had no room for the tables
            connection.execute("select 1 from counter limit 1")
            return _migrated_copy(connection, path)
        except sqlite3.Error as error:
            connection.close()
            reason = error
    raise StoreError(f"cannot open {path}: {reason}", OTHER_HOME)


def _migrated_copy(connection: sqlite3.Connection, path: Path) -> sqlite3.Connection:
    """Return the connection, or a migrated copy in memory if the file has an older schema and cannot be changed."""
    if _check_schema(connection, path) == SCHEMA:
        return connection
    copy = sqlite3.connect(":memory:", isolation_level=None)
    connection.backup(copy)
    connection.close()
    _migrate(copy, path)
    return copy


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    if _check_schema(connection, path) == SCHEMA:
        return
    connection.execute("begin immediate")
    try:
        present = _check_schema(connection, path)
        if present == 0:
            _execute_all(connection, *TABLES)
        for step in range(present, SCHEMA) if present else ():
            _execute_all(connection, *MIGRATIONS[step])
        connection.execute(f"pragma user_version = {SCHEMA}")
    except BaseException:
        connection.execute("rollback")
        raise
    connection.execute("commit")


def _execute_all(connection: sqlite3.Connection, *scripts: str) -> None:
    # executescript would commit the transaction, which must include the whole migration.
    for statement in ";".join(scripts).split(";"):
        if statement.strip():
            connection.execute(statement)


def _check_schema(connection: sqlite3.Connection, path: Path) -> int:
    (present,) = connection.execute("pragma user_version").fetchone()
    if present > SCHEMA:
        raise StoreError(
            f"{path} was written by a newer tfjob (schema {present}; this version supports up to {SCHEMA})",
            "Upgrade tfjob, or set TFJOB_HOME to another folder.",
        )
    return int(present)
