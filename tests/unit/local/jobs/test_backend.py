"""This machine's jobs through a backend: in an event loop, and through a portal from a thread that has one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psutil
import pytest

from tfjob.api.objects import ObjectMeta
from tfjob.api.types import TFJob
from tfjob.jobs.backend import LogQuery
from tfjob.jobs.portal import Portal
from tfjob.jobs.sync_backend import SyncBackend
from tfjob.local.jobs.backend import DriverFailed, connect, open_backend
from tfjob.local.run import driver_lock
from tfjob.local.state.home import Home, boot_id
from tfjob.local.state.store import open_state


def stored(home: Home, name: str) -> Path:
    """A run in the background that has no driver; its folder."""

    def make_folder(number: int) -> Path:
        folder = home.run_folder("default", name, number)
        folder.mkdir(parents=True)
        return folder

    with open_state(home, write=True) as (_, store):
        job = TFJob(metadata=ObjectMeta(name=name, namespace="default"))
        return store.add_run(job, attached=False, boot=boot_id(), folder=make_folder).folder


def test_reading_starts_no_process(tmp_path: Path) -> None:
    home = Home(tmp_path)
    folder, before = stored(home, "mnist"), psutil.Process().children()
    with open_backend(home, "", write=True) as backend:
        record = backend.find("mnist")
        assert backend.jobs(everything=True, all_namespaces=True) == [record]
        assert backend.refresh(record) == record
        for query in (LogQuery(), LogQuery(previous=True)):
            assert list(backend.logs(record, query)) == []
        assert next(backend.logs(record, LogQuery(follow=True))) == []
        backend.replicas(record)
        backend.events(record)
        backend.log_labels(record)
        backend.running(record)
        backend.storage(record)
        backend.documents(record)
    assert list(folder.iterdir()) == []  # a driver has a lock and a log there
    assert psutil.Process().children() == before


def test_a_notebook_reads_jobs_while_its_event_loop_runs(tmp_path: Path) -> None:
    home = Home(tmp_path)
    stored(home, "mnist")

    async def notebook() -> None:
        with Portal() as portal:
            backend = SyncBackend(portal, portal.enter(connect(home, "", write=False)))
            assert [record.name for record in backend.jobs()] == ["mnist"]
            assert backend.find("mnist").id == "mnist.1"
            assert list(backend.logs(backend.find("mnist"), LogQuery())) == []

    asyncio.run(notebook())


def test_several_readers_share_one_event_loop(tmp_path: Path) -> None:
    home = Home(tmp_path)
    stored(home, "mnist")

    async def read() -> None:
        async with connect(home, "", write=False) as backend:
            record = await backend.find("mnist")
            found, _ = await asyncio.gather(backend.jobs(), backend.pause([record], 0.01))
            assert found == [record]

    asyncio.run(read())


def test_a_run_whose_drivers_fail_is_reported_and_can_be_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_lock, "PROGRAM", "tfjob.missing")
    home = Home(tmp_path)
    folder = stored(home, "mnist")
    with open_backend(home, "", write=True) as backend:
        record = backend.find("mnist")
        with pytest.raises(DriverFailed, match=r"mnist.1 failed 5 times: .*No module named tfjob.missing"):
            backend.wait_until_stopped(record)
        backend.delete(record)
        assert backend.jobs(everything=True, all_namespaces=True) == []
    assert not folder.exists()
