"""The state of this machine: several processes, crashes, upgrades and downgrades."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from support.golden import Wording
from support.older_state import lay_out
from tfjob.api.objects import ObjectMeta, OwnerReference, Pod
from tfjob.api.types import TFJob
from tfjob.controller.cluster import AlreadyExists, Conflict
from tfjob.controller.kind import Key
from tfjob.local.state import database
from tfjob.local.state.database import StoreError
from tfjob.local.state.store import Run, Store, edit, open_store


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def add(store: Store, name: str = "mnist") -> Run:
    job = TFJob(metadata=ObjectMeta(name=name, namespace="default"))
    return store.add_run(job, attached=False, boot="b", folder=lambda number: Path(f"/runs/{name}.{number}"))


def pod(run: Run, name: str = "mnist-worker-0") -> Pod:
    owner = OwnerReference(uid=run.uid)
    return Pod(metadata=ObjectMeta(name=name, namespace="default", owner_references=[owner]))


def test_a_name_means_its_newest_run_and_old_runs_keep_their_numbers(file: Path) -> None:
    store = open_store(file)
    first, second = add(store), add(store)
    assert (first.id, second.id) == ("mnist.1", "mnist.2")
    found = store.current(Key("default", "mnist", "TFJob"))
    assert found is not None
    assert found.id == "mnist.2"
    assert [run.current for run in store.runs()] == [False, True]


def test_a_status_written_over_a_newer_object_is_a_conflict(file: Path) -> None:
    store = open_store(file)
    read = add(store).stored
    store.update(read.metadata.uid, lambda old: replace(old, spec=b'{"tfImage":"x"}'))
    with pytest.raises(Conflict):
        store.update_unchanged(read.metadata, lambda stored: replace(stored, status=b'{"state":"Running"}'))


def test_an_edit_of_the_spec_is_a_new_generation_and_a_status_is_not(file: Path) -> None:
    store = open_store(file)
    run = add(store)
    written = store.update_unchanged(run.stored.metadata, lambda stored: replace(stored, status=b'{"state":"Running"}'))
    assert written.generation == 1
    edited = store.update(run.uid, edit(TFJob, lambda old: replace(old, spec=replace(old.spec, tf_image="x"))))
    assert edited is not None
    assert edited.metadata.generation == 2
    changed = store.run(run.uid)
    assert changed is not None
    assert (changed.decode(TFJob).spec.tf_image, changed.decode(TFJob).status.state) == ("x", "Running")


def test_a_child_name_is_given_once(file: Path) -> None:
    store = open_store(file)
    run, other = add(store), add(store, "other")
    store.create_child(pod(run))
    with pytest.raises(AlreadyExists) as same:
        store.create_child(pod(run))
    assert same.value.ours
    with pytest.raises(AlreadyExists) as foreign:
        store.create_child(pod(other))
    assert not foreign.value.ours


def test_another_process_sees_a_write_at_once(file: Path) -> None:
    one, other = open_store(file), open_store(file)
    run = add(one)
    assert other.changed()
    assert not other.changed()
    assert other.children(Pod, run.uid) == []
    one.create_child(pod(run))
    assert other.changed()
    assert [child.metadata.name for child in other.children(Pod, run.uid)] == ["mnist-worker-0"]


def test_equal_news_in_a_row_are_counted(file: Path) -> None:
    store = open_store(file)
    uid = add(store).uid
    for reason in ("A", "A", "B", "A"):
        store.add_event(uid, reason, "text", warning=False, now=datetime.now(UTC))
    assert [(event.reason, event.count) for event in store.events(uid)] == [("A", 2), ("B", 1), ("A", 1)]


def test_a_failed_write_leaves_nothing(file: Path) -> None:
    store = open_store(file)

    def broken() -> None:
        with store.transaction() as cursor:
            cursor.execute("update counter set version = 99")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken()
    (version,) = store.connection.execute("select version from counter").fetchone()
    assert version == 0


def test_a_newer_schema_is_refused_with_what_to_do(file: Path, wording: Wording) -> None:
    open_store(file).close()
    with sqlite3.connect(file) as connection:
        connection.execute(f"pragma user_version = {database.SCHEMA + 1}")
    connection.close()
    for write in (True, False):
        with pytest.raises(StoreError, match="Upgrade") as caught:
            open_store(file, write=write)
        wording(str(caught.value).replace(str(file.parent), "FOLDER"))


def test_an_older_schema_is_migrated_with_what_it_holds(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(file)
    add(store)
    store.close()
    monkeypatch.setattr(database, "SCHEMA", database.SCHEMA + 1)
    monkeypatch.setitem(
        database.MIGRATIONS, database.SCHEMA - 1, ("alter table runs add column colour text default 'red'",)
    )
    migrated = open_store(file)
    assert [run.id for run in migrated.runs()] == ["mnist.1"]
    assert migrated.connection.execute("select colour from runs").fetchall() == [("red",)]
    assert migrated.connection.execute("pragma user_version").fetchone() == (database.SCHEMA,)


def test_a_migration_that_fails_changes_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_store(file).close()
    monkeypatch.setattr(database, "SCHEMA", database.SCHEMA + 1)
    monkeypatch.setitem(database.MIGRATIONS, database.SCHEMA - 1, ("create table extra (x); create table extra (x)",))
    with pytest.raises(StoreError):
        open_store(file)
    monkeypatch.undo()
    store = open_store(file)
    tables = [name for (name,) in store.connection.execute("select name from sqlite_master where type = 'table'")]
    assert "extra" not in tables


def of_schema_1(folder: Path) -> Path:
    return lay_out(1, folder) / "state.db"


def listed(store: Store) -> list[tuple[str, bool, int]]:
    return [(run.id, run.current, len(store.events(run.uid))) for run in store.runs()]


RUNS_OF_SCHEMA_1 = [
    ("done.1", False, 6),
    ("done.2", True, 6),
    ("broken.1", True, 11),
    ("paused.1", True, 10),
    ("running.1", True, 5),
]


def test_runs_of_schema_1_keep_their_numbers_and_events(tmp_path: Path) -> None:
    store = open_store(of_schema_1(tmp_path))
    assert listed(store) == RUNS_OF_SCHEMA_1
    running = store.runs()[-1].uid
    assert [pod.metadata.name for pod in store.children(Pod, running)] == ["running-worker-0", "running-worker-1"]
    assert store.object(Key("default", "paused-settings", "ConfigMap"))
    settled = "select name from objects join runs using (uid) where current and settled_until = 9e999 order by name"
    assert store.connection.execute(settled).fetchall() == [("broken",), ("done",), ("paused",)]


def test_schema_1_is_read_where_it_cannot_be_migrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a full disk: no connection to the file can write."""
    file = of_schema_1(tmp_path)

    def refuse(path: Path) -> sqlite3.Connection:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(database, "_open_writable", refuse)
    store = open_store(file, write=False)
    assert not store.writable
    assert listed(store) == RUNS_OF_SCHEMA_1
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("pragma user_version").fetchone() == (1,)
