"""The objects of this machine's cluster, in one sqlite file that several processes share; any of them may be killed.

A job row is the live object and, later, the record of the run: `current` marks the one that its name means now.
"""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from tfjob.api.objects import Object, Pod
from tfjob.api.types import KIND, TFJob
from tfjob.controller.actions import RecordedEvent
from tfjob.controller.cluster import AlreadyExists, Conflict
from tfjob.controller.kind import Child, Key
from tfjob.local.state import addresses, database
from tfjob.local.state.database import StoreError
from tfjob.local.state.home import Home

SELECT_RUN = "select data, number, current, attached, boot, folder, created from jobs"


@dataclass(frozen=True)
class Run:
    """A job with what only this machine knows of it."""

    job: TFJob
    number: int
    current: bool
    attached: bool
    boot: str
    folder: Path
    created: datetime

    @property
    def name(self) -> str:
        """The job's name."""
        return self.job.metadata.name

    @property
    def id(self) -> str:
        """The name that stays with this run when the job's name is used again: `mnist.1`."""
        return f"{self.name}.{self.number}"

    @property
    def key(self) -> Key:
        """The job's key."""
        return Key(self.job.metadata.namespace, self.job.metadata.name, KIND)


class Store:
    """One connection to the state of this machine."""

    def __init__(self, connection: sqlite3.Connection, *, writable: bool) -> None:
        self.connection = connection
        self.writable = writable
        self._own_writes = 0
        self._seen: tuple[int, int] = (-1, -1)
        self._cached: dict[tuple[type, str], Any] = {}
        self._cached_at: tuple[int, int] = (-1, -1)
        self._unread: dict[tuple[str, str], list[bytes]] | None = None

    # --- jobs ---------------------------------------------------------------------------------------------------

    def add_run(self, job: TFJob, *, attached: bool, boot: str, folder: Callable[[int], Path], above: int = 0) -> Run:
        """Makes `job` the one that its name means, with the next number for that name, higher than `above`."""
        key = (job.metadata.namespace, job.metadata.name)
        now = datetime.now(UTC)
        with self.transaction() as cursor:
            cursor.execute("update jobs set current = 0 where namespace = ? and name = ?", key)
            (last,) = cursor.execute(
                "select coalesce(max(number), 0) from jobs where namespace = ? and name = ?", key
            ).fetchone()
            number = max(last, above) + 1
            version = self._next_version(cursor)
            metadata = replace(
                job.metadata,
                uid=str(uuid.uuid4()),
                generation=1,
                resource_version=str(version),
                creation_timestamp=now.replace(microsecond=0),
            )
            job = replace(job, metadata=metadata)
            run = Run(job, number, True, attached, boot, folder(number), now)
            cursor.execute(
                "insert into jobs values (?, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?)",
                (
                    metadata.uid,
                    *key,
                    run.number,
                    attached,
                    boot,
                    str(run.folder),
                    now.timestamp(),
                    version,
                    encode(job),
                ),
            )
        return run

    def run(self, uid: str) -> Run | None:
        """The run with that uid."""
        cache = self._cache()
        if (Run, uid) not in cache:
            row = self.connection.execute(f"{SELECT_RUN} where uid = ?", (uid,)).fetchone()
            cache[Run, uid] = _run(row) if row else None
        return cast("Run | None", cache[Run, uid])

    def runs(self, namespace: str | None = None, *, current: bool | None = None) -> list[Run]:
        """Runs, oldest first; `current` leaves out, or keeps only, those whose name is used again or removed."""
        query, values = f"{SELECT_RUN} where 1", []
        if namespace is not None:
            query, values = f"{query} and namespace = ?", [namespace]
        if current is not None:
            query = f"{query} and current = {int(current)}"
        found = [_run(row) for row in self.connection.execute(f"{query} order by created", values)]
        if self._unread is not None:
            self._cached.update(((Run, run.job.metadata.uid), run) for run in found)
        return found

    def current(self, key: Key) -> Run | None:
        """The run that a name means now."""
        row = self.connection.execute(
            f"{SELECT_RUN} where current and namespace = ? and name = ?", (key.namespace, key.name)
        ).fetchone()
        return _run(row) if row else None

    def update_job(self, uid: str, change: Callable[[TFJob], TFJob]) -> TFJob | None:
        """Applies `change` to the stored job; an edit of the spec counts as a new generation."""
        with self.transaction() as cursor:
            row = cursor.execute("select data from jobs where uid = ?", (uid,)).fetchone()
            if row is None:
                return None
            old = decode_job(row[0])
            new = change(old)
            if new == old:
                return old
            generation = old.metadata.generation + (new.spec != old.spec)
            version = self._next_version(cursor)
            metadata = replace(new.metadata, generation=generation, resource_version=str(version))
            new = replace(new, metadata=metadata)
            cursor.execute("update jobs set version = ?, data = ? where uid = ?", (version, encode(new), uid))
            return new

    def update_status(self, job: TFJob) -> TFJob:
        """Writes the status of a job as it was read; Conflict when it changed since."""

        def change(stored: TFJob) -> TFJob:
            if stored.metadata.resource_version != job.metadata.resource_version:
                raise Conflict(job.metadata.name)
            return replace(stored, status=job.status)

        updated = self.update_job(job.metadata.uid, change)
        if updated is None:
            raise Conflict(job.metadata.name)
        return updated

    def set_attached(self, uid: str, *, attached: bool, boot: str) -> None:
        """Records who keeps a job alive: the process that shows it, or a background one, and since which boot."""
        with self.transaction() as cursor:
            cursor.execute("update jobs set attached = ?, boot = ? where uid = ?", (attached, boot, uid))

    def retire(self, uid: str) -> None:
        """Makes a job a record: its name is free, what it left stays."""
        with self.transaction() as cursor:
            cursor.execute("update jobs set current = 0 where uid = ?", (uid,))
            cursor.execute("delete from children where owner = ?", (uid,))
            addresses.release_owner(cursor, uid)

    def remove(self, uid: str) -> None:
        """Forgets a run altogether."""
        self.retire(uid)
        with self.transaction() as cursor:
            cursor.execute("delete from events where job = ?", (uid,))
            cursor.execute("delete from objects where owner = ?", (uid,))
            cursor.execute("delete from jobs where uid = ?", (uid,))

    # --- children -----------------------------------------------------------------------------------------------

    def children(self, kind: type[Child], owner: str) -> list[Child]:
        """The children of a job of one kind, in the order of their making."""
        cache = self._cache()
        if (kind, owner) not in cache:
            if self._unread is not None:
                found = self._unread.get((kind.__name__, owner), [])
            else:
                query = "select data from children where owner = ? and kind = ? order by rowid"
                found = [row[0] for row in self.connection.execute(query, (owner, kind.__name__))]
            cache[kind, owner] = [msgspec.json.decode(data, type=kind) for data in found]
        return list(cache[kind, owner])

    def pods(self, mention: str = "") -> list[Pod]:
        """The pods of all jobs in whose stored form a text occurs: much cheaper than to decode them all."""
        rows = self.connection.execute(
            "select data from children where kind = 'Pod' and instr(data, cast(? as blob)) order by rowid", (mention,)
        )
        return [msgspec.json.decode(row[0], type=Pod) for row in rows]

    def create_child(self, child: Child) -> Child:
        """Stores a new child; AlreadyExists when its name is taken."""
        owner = child.metadata.owner_references[0].uid
        with self.transaction() as cursor:
            row = cursor.execute(
                "select owner from children where kind = ? and namespace = ? and name = ?",
                (child.kind, child.metadata.namespace, child.metadata.name),
            ).fetchone()
            if row is not None:
                raise AlreadyExists(child.metadata.name, ours=row[0] == owner)
            version = self._next_version(cursor)
            metadata = replace(
                child.metadata,
                uid=str(uuid.uuid4()),
                resource_version=str(version),
                creation_timestamp=datetime.now(UTC).replace(microsecond=0),
            )
            made: Any = child
            stored: Child = replace(made, metadata=metadata)
            cursor.execute(
                "insert into children values (?, ?, ?, ?, ?, ?, ?)",
                (child.kind, metadata.namespace, metadata.name, metadata.uid, owner, version, encode(stored)),
            )
        return stored

    def update_child(self, child: Pod) -> None:
        """Stores a pod's new status or deletion mark, if it is still the same pod."""
        with self.transaction() as cursor:
            self._write_child(cursor, child)

    def change_pods(self, change: Callable[[list[Pod]], list[Pod]]) -> list[Pod]:
        """Writes those that `change` makes of all pods of all jobs; nobody else changes any of them meanwhile."""
        with self.transaction() as cursor:
            rows = cursor.execute("select data from children where kind = 'Pod' order by rowid").fetchall()
            changed = change([msgspec.json.decode(row[0], type=Pod) for row in rows])
            for pod in changed:
                self._write_child(cursor, pod)
        return changed

    def remove_child(self, uid: str) -> None:
        """Removes a child that has ended."""
        with self.transaction() as cursor:
            cursor.execute("delete from children where uid = ?", (uid,))

    # --- objects beside jobs ----------------------------------------------------------------------------------------

    def put_object(self, key: Key, data: dict[str, object], owner: str = "") -> None:
        """Stores a ConfigMap or a claim as the manifest has it."""
        with self.transaction() as cursor:
            cursor.execute(
                "insert or replace into objects values (?, ?, ?, ?, ?)",
                (key.kind, key.namespace, key.name, owner, msgspec.json.encode(data)),
            )

    def object(self, key: Key) -> dict[str, object] | None:
        """A stored ConfigMap or claim."""
        row = self.connection.execute(
            "select data from objects where kind = ? and namespace = ? and name = ?",
            (key.kind, key.namespace, key.name),
        ).fetchone()
        return msgspec.json.decode(row[0], type=dict[str, object]) if row else None

    # --- events -------------------------------------------------------------------------------------------------

    def add_event(self, job: str, reason: str, message: str, *, warning: bool, now: datetime) -> None:
        """Appends news; the same news again only raise a count."""
        with self.transaction() as cursor:
            row = cursor.execute(
                "select id, reason, message from events where job = ? order by id desc limit 1", (job,)
            ).fetchone()
            if row and row[1:] == (reason, message):
                cursor.execute("update events set count = count + 1, last = ? where id = ?", (now.timestamp(), row[0]))
                return
            cursor.execute(
                "insert into events (job, time, last, count, warning, reason, message) values (?, ?, ?, 1, ?, ?, ?)",
                (job, now.timestamp(), now.timestamp(), warning, reason, message),
            )

    def events(self, job: str, after: int = 0) -> list[tuple[int, RecordedEvent]]:
        """The events of a run with their ids, in order."""
        rows = self.connection.execute(
            "select id, time, last, count, warning, reason, message from events where job = ? and id > ? order by id",
            (job, after),
        )
        return [
            (row[0], RecordedEvent(_time(row[1]), _time(row[2]), row[3], bool(row[4]), row[5], row[6])) for row in rows
        ]

    # --- changes ------------------------------------------------------------------------------------------------

    def changed(self) -> bool:
        """Whether anything was written, by this process or another, since the last call."""
        now = self._version()
        changed = now != self._seen
        self._seen = now
        return changed

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Reads of many runs as they are now, with few queries."""
        self._cache().clear()
        self._unread = {}
        for kind, owner, data in self.connection.execute("select kind, owner, data from children order by rowid"):
            self._unread.setdefault((kind, owner), []).append(data)
        try:
            yield
        finally:
            self._unread = None
            self._cached.clear()

    def close(self) -> None:
        """Ends the connection."""
        self.connection.close()

    def _version(self) -> tuple[int, int]:
        """Changes with every write: another connection's, then our own."""
        (others,) = self.connection.execute("pragma data_version").fetchone()
        return others, self._own_writes

    def _cache(self) -> dict[tuple[type, str], Any]:
        """What was read since the last write: a driver looks many times a second, and mostly nothing changed."""
        if self._unread is not None:
            return self._cached
        now = self._version()
        if now != self._cached_at:
            self._cached.clear()
            self._cached_at = now
        return self._cached

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Cursor]:
        """Writes that happen together or not at all."""
        if not self.writable:
            raise StoreError("the state folder is read-only")
        cursor = self.connection.cursor()
        # Not deferred: a transaction that reads first could otherwise not become a writing one.
        cursor.execute("begin immediate")
        try:
            yield cursor
        except BaseException:
            cursor.execute("rollback")
            raise
        cursor.execute("commit")
        self._own_writes += 1

    def _write_child(self, cursor: sqlite3.Cursor, child: Pod) -> None:
        version = self._next_version(cursor)
        metadata = replace(child.metadata, resource_version=str(version))
        cursor.execute(
            "update children set version = ?, data = ? where uid = ?",
            (version, encode(replace(child, metadata=metadata)), child.metadata.uid),
        )

    @staticmethod
    def _next_version(cursor: sqlite3.Cursor) -> int:
        (version,) = cursor.execute("update counter set version = version + 1 returning version").fetchone()
        return int(version)


def open_store(path: Path, *, write: bool = True) -> Store:
    """Opens the state, making it if need be; without `write` a full or read-only disk is no obstacle."""
    connection, writable = database.connect(path, write=write)
    return Store(connection, writable=writable)


@contextmanager
def open_state(home: Home, *, write: bool) -> Iterator[tuple[Home, Store]]:
    """The opened state; a reader also works on a full or read-only disk, and without any state at all."""
    if write:
        try:
            home.create()
        except OSError as error:
            raise StoreError(
                f"the state folder {home.path} cannot be written: {error.strerror}; TFJOB_HOME can name another one"
            ) from None
    store = open_store(home.database, write=write)
    try:
        yield home, store
    finally:
        store.close()


def encode(value: Object) -> bytes:
    """The stored form of an object."""
    return msgspec.json.encode(value)


def decode_job(data: bytes) -> TFJob:
    """A job from its stored form."""
    return msgspec.json.decode(data, type=TFJob)


def _run(row: tuple[bytes, int, int, int, str, str, float]) -> Run:
    data, number, current, attached, boot, folder, created = row
    return Run(decode_job(data), number, bool(current), bool(attached), boot, Path(folder), _time(created))


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
