"""Whether a run needs a driver, and how a run without one is suspended."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from msgspec.structs import replace

from support.toys import Batch, BatchKind, ToyStatus
from tfjob.api.objects import ObjectMeta
from tfjob.api.types import TFJob
from tfjob.controller.kind import INTERRUPTED, STOPPED, SUSPEND_REASON
from tfjob.local.run.driver_lock import is_interrupted, needs_driver, suspend
from tfjob.local.state.home import boot_id
from tfjob.local.state.store import Run, Store, open_store
from tfjob.plan.kind import MachineTFJobKind

METADATA = ObjectMeta(name="mnist", namespace="default")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "state.db")


def add(store: Store, owner: TFJob | Batch, *, attached: bool = False, boot: str = "") -> Run:
    folder = Path(store.connection.execute("pragma database_list").fetchone()[2]).parent
    return store.add_run(owner, attached=attached, boot=boot or boot_id(), folder=lambda number: folder)


def again(store: Store, run: Run) -> Run:
    found = store.run(run.uid)
    assert found is not None
    return found


def test_a_settled_run_needs_a_driver_after_an_edit_or_a_time(store: Store) -> None:
    run = add(store, TFJob(metadata=METADATA))
    assert needs_driver(run)
    assert store.settle(run.uid, math.inf, store.version())
    assert not needs_driver(again(store, run))
    store.update(run.uid, lambda stored: replace(stored, spec=b'{"tfImage":"x"}'))
    assert needs_driver(again(store, run))
    assert store.settle(run.uid, 1.0, store.version())
    assert needs_driver(again(store, run))


def test_a_run_that_changed_since_it_was_judged_is_not_settled(store: Store) -> None:
    run = add(store, TFJob(metadata=METADATA))
    version = store.version()
    store.update(run.uid, lambda stored: replace(stored, spec=b'{"tfImage":"x"}'))
    assert not store.settle(run.uid, math.inf, version)
    assert needs_driver(again(store, run))


@pytest.mark.parametrize(
    ("attached", "boot", "expected"), [(True, "", True), (False, "", False), (False, "another boot", True)]
)
def test_a_run_is_interrupted_with_what_kept_it_alive(store: Store, attached: bool, boot: str, expected: bool) -> None:
    run = add(store, TFJob(metadata=METADATA), attached=attached, boot=boot)
    assert is_interrupted(run) == expected
    store.retire(run.uid)
    assert not is_interrupted(again(store, run))


def test_a_job_is_suspended_and_keeps_its_first_reason(store: Store) -> None:
    run = add(store, TFJob(metadata=METADATA))
    for reason in (STOPPED, INTERRUPTED):
        suspend(store, run.uid, MachineTFJobKind(), reason)
    job = again(store, run).decode(TFJob)
    assert job.spec.run_policy.suspend
    assert job.metadata.annotations[SUSPEND_REASON] == STOPPED


@pytest.mark.parametrize(("state", "deleted"), [("Running", True), ("Succeeded", False)])
def test_an_owner_of_another_kind_is_deleted_unless_it_is_finished(store: Store, state: str, deleted: bool) -> None:
    run = add(store, Batch(kind="Batch", metadata=METADATA, status=ToyStatus(state=state)))
    suspend(store, run.uid, BatchKind(), STOPPED)
    assert (again(store, run).stored.metadata.deletion_timestamp is not None) == deleted
