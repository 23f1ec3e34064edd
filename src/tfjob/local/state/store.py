"""The objects of this machine's cluster, in one sqlite file that several processes share; any of them may be killed.

An object that a driver works on has a run. Its row is first the live object and later the record of the run: `current`
marks the object that its name refers to now.
"""

from __future__ import annotations

import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec
from msgspec.structs import replace

from tfjob.api.objects import Model, Object, ObjectMeta, Pod
from tfjob.controller.actions import RecordedEvent
from tfjob.controller.cluster import AlreadyExists, Conflict
from tfjob.controller.kind import Child, Key, OwnerObject, Stored
from tfjob.local.state import addresses, database
from tfjob.local.state.database import StoreError
from tfjob.local.state.home import Home

SELECT_RUN = """
select objects.uid, kind, namespace, name, owner, current, data, runs.number, runs.folder, runs.created,
    roots.uid, roots.folder, roots.attached, roots.boot, roots.settled_until
from runs join objects using (uid) join runs as roots on roots.uid = runs.root
"""

SELECT_KIND = "select data from objects where kind = ?"

OwnerType = TypeVar("OwnerType", bound=OwnerObject)
Found = TypeVar("Found")


class _Envelope(Model, frozen=True, omit_defaults=False):
    """An object whose spec and status stay encoded."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


@dataclass(frozen=True)
class Run:
    """An object that a driver works on, with what only this machine knows about it.

    The driver of its root run drives it, so `root_folder`, `attached`, `boot` and `settled_until` are the root's.
    """

    uid: str
    key: Key
    owner: str
    current: bool
    data: bytes
    number: int
    folder: Path
    created: datetime
    root: str
    root_folder: Path
    attached: bool
    boot: str
    settled_until: float | None

    @property
    def name(self) -> str:
        return self.key.name

    @property
    def id(self) -> str:
        """The name of this run alone, such as `mnist.1`; a later run of the job has another number."""
        return f"{self.name}.{self.number}"

    @cached_property
    def stored(self) -> Stored:
        """The object with its spec and status still encoded."""
        return decode_stored(self.data)

    def decode(self, owner: type[OwnerType]) -> OwnerType:
        if owner not in self._decoded:
            self._decoded[owner] = msgspec.json.decode(self.data, type=owner)
        return cast("OwnerType", self._decoded[owner])

    @cached_property
    def _decoded(self) -> dict[type, Any]:
        return {}


class Store:
    """One connection to the state of this machine."""

    def __init__(self, connection: sqlite3.Connection, *, writable: bool) -> None:
        self.connection = connection
        self.writable = writable
        self._own_writes = 0
        self._seen: tuple[int, int] = (-1, -1)
        self._cached: dict[tuple[Any, str], Any] = {}
        self._cached_at: tuple[int, int] = (-1, -1)

    # --- runs ---------------------------------------------------------------------------------------------------

    def add_run(
        self,
        owner: Object,
        folder: Callable[[int], Path],
        *,
        root: str = "",
        attached: bool = False,
        boot: str = "",
        above: int = 0,
    ) -> Run:
        """Store an object with a run, whose number is the next one above `above`.

        A root run (no `root`) takes over its name from the last run. A run that another object owns raises
        AlreadyExists if its name is taken.
        """
        kind, namespace, name = owner.kind, owner.metadata.namespace, owner.metadata.name
        with self.transaction() as cursor:
            if not root:
                query = "update objects set current = 0 where kind = ? and namespace = ? and name = ?"
                cursor.execute(query, (kind, namespace, name))
            stored = self._insert(cursor, owner, owner.metadata.owner_references[0].uid if root else "")
            # Numbers are counted by name alone, so that two kinds of one name never share a folder.
            (last,) = cursor.execute(
                "select coalesce(max(number), 0) from objects join runs using (uid) where namespace = ? and name = ?",
                (namespace, name),
            ).fetchone()
            uid, number = stored.metadata.uid, max(last, above) + 1
            cursor.execute(
                "insert into runs values (?, ?, ?, ?, ?, ?, ?, null)",
                (uid, number, attached, boot, str(folder(number)), time.time(), root or uid),
            )
        found = self.run(uid)
        assert found is not None
        return found

    def run(self, uid: str) -> Run | None:
        return self._once((Run, uid), lambda: next(iter(self._runs("objects.uid = :uid", {"uid": uid})), None))

    def runs(self, namespace: str | None = None, *, everything: bool = True) -> list[Run]:
        """Return the runs of one namespace or all, oldest first; without `everything` only those of current objects."""
        condition = "(:namespace is null or namespace = :namespace) and (current or :all)"
        return self._runs(condition, {"namespace": namespace, "all": everything})

    def folders(self, namespace: str, name: str) -> list[Path]:
        """Return the folders of all runs of a name."""
        query = "select folder from runs join objects using (uid) where namespace = ? and name = ?"
        return [Path(folder) for (folder,) in self.connection.execute(query, (namespace, name))]

    def tree(self, root: str, *, everything: bool = False) -> list[Run]:
        """Return the current runs of a root, or all, the root first."""
        condition, values = "runs.root = :root and (current or :all)", {"root": root, "all": everything}
        return list(self._once((everything, root), lambda: self._runs(condition, values)))

    def unsettled(self) -> list[Run]:
        return self._runs("coalesce(roots.settled_until, 0) <= :now", {"now": time.time()})

    def current(self, key: Key) -> Run | None:
        condition = "current and kind = :kind and namespace = :namespace and name = :name"
        return next(iter(self._runs(condition, asdict(key))), None)

    def _runs(self, condition: str, values: Mapping[str, Any]) -> list[Run]:
        rows = self.connection.execute(f"{SELECT_RUN} where {condition} order by runs.created", values)
        return [_run(row) for row in rows]

    def update(self, uid: str, change: Callable[[Stored], Stored]) -> Stored | None:
        """Apply `change` to an object; an edit of the spec counts as a new generation."""
        with self.transaction() as cursor:
            row = cursor.execute("select data from objects where uid = ?", (uid,)).fetchone()
            if row is None:
                return None
            old = decode_stored(row[0])
            new = change(old)
            if new == old:
                return old
            generation = old.metadata.generation + (new.spec != old.spec)
            version = self._next_version(cursor)
            metadata = replace(new.metadata, generation=generation, resource_version=str(version))
            new = replace(new, metadata=metadata)
            self._write(cursor, uid, version, _encode_stored(new))
            cursor.execute(
                "update runs set settled_until = null"
                " where uid = (select root from runs where uid = ?) and settled_until is not null",
                (uid,),
            )
            return new

    def update_unchanged(self, read: ObjectMeta, change: Callable[[Stored], Stored]) -> ObjectMeta:
        """Apply `change` to an object as it was read, and return its new metadata; Conflict if it changed since."""

        def fenced(stored: Stored) -> Stored:
            if stored.metadata.resource_version != read.resource_version:
                raise Conflict(read.name)
            return change(stored)

        updated = self.update(read.uid, fenced)
        if updated is None:
            raise Conflict(read.name)
        return updated.metadata

    def settle(self, uid: str, until: float, version: int) -> bool:
        """Record until when a root needs no driver; False if any object has changed since that version."""
        with self.transaction() as cursor:
            if self.version() != version:
                return False
            cursor.execute("update runs set settled_until = ? where uid = ?", (until, uid))
            return True

    def set_attached(self, uid: str, *, attached: bool, boot: str) -> None:
        """Record whether the process that shows a run keeps it alive, or a background process; and since which boot."""
        with self.transaction() as cursor:
            cursor.execute("update runs set attached = ?, boot = ? where uid = ?", (attached, boot, uid))

    def retire(self, uid: str) -> None:
        """Turn the object of a run into a record: its name is free again, its events and files stay."""
        with self.transaction() as cursor:
            version = self._next_version(cursor)
            cursor.execute("update objects set current = 0, version = ? where uid = ?", (version, uid))
            cursor.execute("update runs set settled_until = 9e999 where uid = ?", (uid,))
            cursor.execute("delete from objects where owner = ? and uid not in (select uid from runs)", (uid,))
            addresses.release_owner(cursor, uid)

    def remove(self, uid: str) -> None:
        self.retire(uid)
        with self.transaction() as cursor:
            cursor.execute("delete from events where about = ?", (uid,))
            cursor.execute("delete from runs where uid = ?", (uid,))
            cursor.execute("delete from objects where uid = ?", (uid,))

    # --- children -----------------------------------------------------------------------------------------------

    def children(self, kind: type[Child], owner: str) -> list[Child]:
        return list(self._once((kind, owner), lambda: self._read(kind, "owner = ?", (owner,))))

    def owned(self, kind: str, owner: str) -> list[Stored]:
        """Return the current objects of one kind that an owner owns, oldest first, still encoded."""
        query = "select data from objects where current and owner = ? and kind = ? order by rowid"
        return [decode_stored(row[0]) for row in self.connection.execute(query, (owner, kind))]

    def pods(self, mention: str = "") -> list[Pod]:
        """Return the pods of all jobs whose stored form contains a string: much cheaper than decoding every pod."""
        return self._read(Pod, "instr(data, cast(? as blob))", (mention,))

    def objects(self, kind: type[Child], namespace: str) -> list[Child]:
        return self._read(kind, "current and namespace = ?", (namespace,))

    def _read(self, kind: type[Child], condition: str, values: Sequence[str]) -> list[Child]:
        rows = self.connection.execute(f"{SELECT_KIND} and {condition} order by rowid", (kind.__name__, *values))
        return [msgspec.json.decode(row[0], type=kind) for row in rows]

    def create_child(self, child: Child) -> Child:
        with self.transaction() as cursor:
            return self._insert(cursor, child, child.metadata.owner_references[0].uid)

    def update_child(self, child: Pod) -> None:
        with self.transaction() as cursor:
            self._write_child(cursor, child)

    def change_pods(self, change: Callable[[list[Pod]], list[Pod]]) -> list[Pod]:
        """Write the pods that `change` returns for the pods of all jobs, which no other process changes meanwhile."""
        with self.transaction() as cursor:
            changed = change(self.pods())
            for pod in changed:
                self._write_child(cursor, pod)
        return changed

    def remove_child(self, uid: str) -> None:
        with self.transaction() as cursor:
            self._next_version(cursor)
            cursor.execute("delete from objects where uid = ?", (uid,))

    def put_object(self, key: Key, data: dict[str, object]) -> None:
        """Store a ConfigMap of a manifest, unless a job owns one of that name."""
        identity = (key.kind, key.namespace, key.name)
        with self.transaction() as cursor:
            version = self._next_version(cursor)
            cursor.execute("delete from objects where owner = '' and kind = ? and namespace = ? and name = ?", identity)
            cursor.execute(
                "insert or ignore into objects values (?, ?, ?, ?, '', 1, ?, ?)",
                (str(uuid.uuid4()), *identity, version, msgspec.json.encode(data)),
            )

    def object(self, key: Key) -> dict[str, object] | None:
        row = self.connection.execute(
            "select data from objects where current and kind = ? and namespace = ? and name = ?",
            (key.kind, key.namespace, key.name),
        ).fetchone()
        return msgspec.json.decode(row[0], type=dict[str, object]) if row else None

    # --- events -------------------------------------------------------------------------------------------------

    def add_event(self, about: str, reason: str, message: str, *, warning: bool, now: datetime) -> None:
        """Append an event; if it repeats the last one, only increase its count."""
        with self.transaction() as cursor:
            row = cursor.execute(
                "select id, reason, message from events where about = ? order by id desc limit 1", (about,)
            ).fetchone()
            if row and row[1:] == (reason, message):
                cursor.execute("update events set count = count + 1, last = ? where id = ?", (now.timestamp(), row[0]))
                return
            cursor.execute(
                "insert into events (about, time, last, count, warning, reason, message) values (?, ?, ?, 1, ?, ?, ?)",
                (about, now.timestamp(), now.timestamp(), warning, reason, message),
            )

    def events(self, about: str) -> list[RecordedEvent]:
        query = "select time, last, count, warning, reason, message from events where about = ? order by id"
        return [
            RecordedEvent(_time(first), _time(last), count, bool(warning), reason, message)
            for first, last, count, warning, reason, message in self.connection.execute(query, (about,))
        ]

    # --- changes ------------------------------------------------------------------------------------------------

    def changed(self) -> bool:
        """Return whether this process or another has written anything since the last call."""
        before, self._seen = self._seen, self._version()
        return before != self._seen

    def version(self) -> int:
        """Return a number that grows with every change of an object, by this process or another."""
        (version,) = self.connection.execute("select version from counter").fetchone()
        return int(version)

    def versions(self, root: str) -> dict[str, tuple[int, int]]:
        """Return for every run of a root a value that changes with its object and with every object that it owns."""
        rows = self.connection.execute(
            "select runs.uid, max(version), count(*) from runs"
            " join objects on objects.uid = runs.uid or objects.owner = runs.uid where root = ? group by runs.uid",
            (root,),
        )
        return {uid: (version, count) for uid, version, count in rows}

    def close(self) -> None:
        self.connection.close()

    def _version(self) -> tuple[int, int]:
        """Return a value that changes with every write: by other connections, and by this one."""
        (others,) = self.connection.execute("pragma data_version").fetchone()
        return others, self._own_writes

    def _once(self, key: tuple[Any, str], read: Callable[[], Found]) -> Found:
        """Read once until the next write: a driver reads many times per second, mostly without a change."""
        now = self._version()
        if now != self._cached_at:
            self._cached.clear()
            self._cached_at = now
        if key not in self._cached:
            self._cached[key] = read()
        return cast("Found", self._cached[key])

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Cursor]:
        """Write everything inside, or nothing if an exception is raised."""
        if not self.writable:
            raise StoreError("the state folder is read-only", database.OTHER_HOME)
        cursor = self.connection.cursor()
        # Not deferred: a transaction that reads first could fail when it starts to write.
        cursor.execute("begin immediate")
        try:
            yield cursor
        except BaseException:
            cursor.execute("rollback")
            raise
        cursor.execute("commit")
        self._own_writes += 1

    def _insert(self, cursor: sqlite3.Cursor, child: Child, owner: str) -> Child:
        kind, namespace, name = child.kind, child.metadata.namespace, child.metadata.name
        row = cursor.execute(
            "select owner from objects where current and kind = ? and namespace = ? and name = ?",
            (kind, namespace, name),
        ).fetchone()
        if row is not None:
            raise AlreadyExists(name, ours=row[0] == owner)
        version = self._next_version(cursor)
        metadata = replace(
            child.metadata,
            uid=str(uuid.uuid4()),
            generation=1,
            resource_version=str(version),
            creation_timestamp=datetime.now(UTC).replace(microsecond=0),
        )
        made: Any = child
        stored: Child = replace(made, metadata=metadata)
        cursor.execute(
            "insert into objects values (?, ?, ?, ?, ?, 1, ?, ?)",
            (metadata.uid, kind, namespace, name, owner, version, msgspec.json.encode(stored)),
        )
        return stored

    def _write_child(self, cursor: sqlite3.Cursor, child: Pod) -> None:
        version = self._next_version(cursor)
        metadata = replace(child.metadata, resource_version=str(version))
        self._write(cursor, metadata.uid, version, msgspec.json.encode(replace(child, metadata=metadata)))

    @staticmethod
    def _write(cursor: sqlite3.Cursor, uid: str, version: int, data: bytes) -> None:
        cursor.execute("update objects set version = ?, data = ? where uid = ?", (version, data, uid))

    @staticmethod
    def _next_version(cursor: sqlite3.Cursor) -> int:
        (version,) = cursor.execute("update counter set version = version + 1 returning version").fetchone()
        return int(version)


def open_store(path: Path, *, write: bool = True) -> Store:
    """Open the database, and create it if needed; without `write` this also works on a full or read-only disk."""
    connection, writable = database.connect(path, write=write)
    return Store(connection, writable=writable)


@contextmanager
def open_state(home: Home, *, write: bool) -> Iterator[tuple[Home, Store]]:
    """Open the state folder; without `write` this also works on a full or read-only disk, and if there is no state."""
    if write:
        try:
            home.create()
        except OSError as error:
            text = f"cannot write to the state folder {home.path}: {error.strerror}"
            raise StoreError(text, database.OTHER_HOME) from None
    store = open_store(home.database, write=write)
    try:
        yield home, store
    finally:
        store.close()


def decode_stored(data: bytes) -> Stored:
    found = msgspec.json.decode(data, type=_Envelope)
    return Stored(found.kind, found.metadata, bytes(found.spec), bytes(found.status), found.api_version)


def _encode_stored(stored: Stored) -> bytes:
    spec, status = msgspec.Raw(stored.spec), msgspec.Raw(stored.status)
    return msgspec.json.encode(
        _Envelope(api_version=stored.api_version, kind=stored.kind, metadata=stored.metadata, spec=spec, status=status)
    )


def edit(owner: type[OwnerType], change: Callable[[OwnerType], OwnerType]) -> Callable[[Stored], Stored]:
    """Return the change of a typed object as a change of its stored form; unchanged parts stay byte for byte."""

    def changed(stored: Stored) -> Stored:
        old: Any = msgspec.json.decode(_encode_stored(stored), type=owner)
        new: Any = change(old)
        return replace(
            stored,
            metadata=new.metadata,
            spec=stored.spec if new.spec == old.spec else msgspec.json.encode(new.spec),
            status=stored.status if new.status == old.status else msgspec.json.encode(new.status),
        )

    return changed


def marked_for_deletion(stored: Stored) -> Stored:
    """Return the object with the time at which its deletion was requested."""
    if stored.metadata.deletion_timestamp is not None:
        return stored
    now = datetime.now(UTC).replace(microsecond=0)
    return replace(stored, metadata=replace(stored.metadata, deletion_timestamp=now))


def _run(row: tuple[Any, ...]) -> Run:
    uid, kind, namespace, name, owner, current, data, number, folder, created = row[:10]
    root, root_folder, attached, boot, settled_until = row[10:]
    of_root = (root, Path(root_folder), bool(attached), boot, settled_until)
    key = Key(namespace, name, kind)
    return Run(uid, key, owner, bool(current), data, number, Path(folder), _time(created), *of_root)


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
