"""This machine as the cluster of a tree of runs."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from support.toys import Batch, BatchKind
from tfjob.api.objects import ObjectMeta, OwnerReference, Pod, PodGroup, Service
from tfjob.api.types import TFJob
from tfjob.controller.actions import Event
from tfjob.controller.cluster import AlreadyExists, Conflict, Rejected
from tfjob.controller.kind import Key, Kind
from tfjob.local.pod.network import Network
from tfjob.local.run.cluster import LocalCluster
from tfjob.local.state.home import Home, boot_id
from tfjob.local.state.options import Options
from tfjob.local.state.store import open_state
from tfjob.plan.kind import MachineTFJobKind

FINALIZER = "toys.example/data"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """The cluster of a batch with a finalizer."""
    home = Home(tmp_path / "home")
    with open_state(home, write=True) as (_, store):
        options = Options(project=str(tmp_path), level="addresses", limits="off")

        def make_folder(number: int) -> Path:
            folder = home.run_folder("default", "toy", number)
            folder.mkdir(parents=True)
            options.save(folder)
            return folder

        metadata = ObjectMeta(name="toy", namespace="default", finalizers=[FINALIZER])
        spec = {"count": 2, "parallel": 2, "template": {}}
        batch = Batch(kind="Batch", metadata=metadata, spec=spec)
        root = store.add_run(batch, attached=False, boot=boot_id(), folder=make_folder)
        kinds: list[Kind[Any]] = [BatchKind(), MachineTFJobKind()]
        yield LocalCluster(home, store, root, kinds, Network(store, root.uid, "addresses"))


def child_metadata(cluster: LocalCluster, name: str) -> ObjectMeta:
    owner = OwnerReference(kind="Batch", name="toy", uid=cluster.root.uid, controller=True)
    return ObjectMeta(name=name, namespace="default", owner_references=[owner])


def test_on_a_full_disk_events_are_shown_at_once_and_stored_later(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = list[Event]()
    cluster._on_news = shown.append
    texts = ("toy-0: 1 byte", "toy-1: 5 bytes", "toy-0: 9 bytes")
    events = [Event("LogLost", text, warning=True) for text in texts] + [Event("Other", "a: b"), Event("Other", "a: c")]

    def full(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as disk:
        disk.setattr(cluster.store, "add_event", full)
        for event in events:
            cluster.publish_about(cluster.root.uid, event)
    assert shown == events
    assert cluster.store.events(cluster.root.uid) == []
    cluster.store_events()
    cluster.store_events()
    found = cluster.store.events(cluster.root.uid)
    assert [one.message for one in found] == ["toy-1: 5 bytes", "toy-0: 9 bytes", "a: b", "a: c"]
    assert {one.count for one in found} == {1}


def test_a_deleted_pod_is_read_at_its_present_version(cluster: LocalCluster) -> None:
    asyncio.run(cluster.create(Pod(metadata=child_metadata(cluster, "toy-0"))))

    def present() -> Pod:
        (found,) = cluster.store.children(Pod, cluster.root.uid)
        return found

    def read() -> None:
        batch = asyncio.run(cluster.owner(cluster.root.key))
        asyncio.run(cluster.children(Pod, cluster.root.key, batch))

    asyncio.run(cluster.delete(Key("default", "toy-0", "Pod"), present().metadata.uid))
    assert not cluster.has_read(present())
    read()
    assert cluster.has_read(present())
    cluster.store.update_child(present())
    assert not cluster.has_read(present())
    read()
    assert cluster.has_read(present())


def create_job(cluster: LocalCluster, name: str = "toy-0") -> TFJob:
    asyncio.run(cluster.create(TFJob(metadata=child_metadata(cluster, name))))
    return next(one for one in jobs_of(cluster) if one.metadata.name == name)


def jobs_of(cluster: LocalCluster) -> list[TFJob]:
    batch = asyncio.run(cluster.owner(cluster.root.key))
    return asyncio.run(cluster.children(TFJob, cluster.root.key, batch))


def changes(cluster: LocalCluster) -> list[str]:
    """The names of the owners that changed since the last call."""
    return [key.name for key in cluster._changed()]


def test_an_owned_owner_gets_a_run_of_the_tree(cluster: LocalCluster) -> None:
    job = create_job(cluster)
    root, child = cluster.store.tree(cluster.root.uid)
    assert (child.uid, child.owner, child.root) == (job.metadata.uid, root.uid, root.uid)
    assert Options.load(child.folder) == Options.load(root.folder)
    with pytest.raises(AlreadyExists) as caught:
        asyncio.run(cluster.create(TFJob(metadata=child_metadata(cluster, "toy-0"))))
    assert caught.value.ours
    assert sorted(path.name for path in child.folder.parent.iterdir()) == ["toy-0.1", "toy.1"]


def test_only_owners_that_changed_are_woken(cluster: LocalCluster) -> None:
    first, second = create_job(cluster, "toy-0"), create_job(cluster, "toy-1")
    assert changes(cluster) == ["toy", "toy-0", "toy-1"]
    assert changes(cluster) == []
    pod = Pod(
        metadata=ObjectMeta(name="pod", namespace="default", owner_references=[OwnerReference(uid=first.metadata.uid)])
    )
    asyncio.run(cluster.create(pod))
    assert changes(cluster) == ["toy-0"]
    asyncio.run(cluster.delete(Key("default", "toy-1", "TFJob"), second.metadata.uid))
    assert changes(cluster) == ["toy", "toy-1"]
    cluster.collect()
    assert changes(cluster) == ["toy"]
    assert [job.metadata.name for job in jobs_of(cluster)] == ["toy-0"]


def test_a_finalizer_holds_up_a_deletion_and_what_it_ends(cluster: LocalCluster) -> None:
    create_job(cluster)
    key, store = cluster.root.key, cluster.store
    asyncio.run(cluster.delete(key, cluster.root.uid))
    cluster.collect()
    batch = asyncio.run(cluster.owner(key))
    assert batch.metadata.deletion_timestamp is not None
    assert jobs_of(cluster)[0].metadata.deletion_timestamp is None

    asyncio.run(cluster.remove_finalizer(key, batch, FINALIZER))
    assert asyncio.run(cluster.owner(key)) is None, "as good as gone"
    with pytest.raises(Conflict):
        asyncio.run(cluster.remove_finalizer(key, batch, FINALIZER))
    left = []
    for _ in range(3):
        cluster.collect()
        left.append([run.name for run in store.tree(cluster.root.uid)])
    assert left == [["toy", "toy-0"], ["toy"], []], "the leaves first"


def test_an_update_over_a_newer_version_is_a_conflict(cluster: LocalCluster) -> None:
    job = create_job(cluster)
    edited = replace(job, spec=replace(job.spec, tf_image="x"))
    asyncio.run(cluster.update(edited))
    assert jobs_of(cluster)[0].spec.tf_image == "x"
    with pytest.raises(Conflict):
        asyncio.run(cluster.update(edited))


def test_a_pod_and_its_service_share_an_address(cluster: LocalCluster) -> None:
    metadata = child_metadata(cluster, "toy-worker-0")
    ports = [{"name": "tfjob-port", "containerPort": 2222}]
    asyncio.run(cluster.create(Pod(metadata=metadata, spec={"containers": [{"name": "tensorflow", "ports": ports}]})))
    asyncio.run(cluster.create(Service(metadata=metadata, spec={"ports": [{"name": "tfjob-port", "port": 2222}]})))
    (pod,) = cluster.store.children(Pod, cluster.root.uid)
    (peer,) = cluster.network.peers()
    assert (peer.name, peer.ip, dict(peer.ports)) == ("toy-worker-0", pod.status.pod_ip, {})
    (kept,) = Network(cluster.store, cluster.root.uid, "addresses").peers()
    assert kept == peer


def test_an_owner_without_a_run_is_removed_at_once(cluster: LocalCluster) -> None:
    """An earlier release stored the Deployment of a TensorBoard without one."""
    stored = cluster.store.create_child(TFJob(metadata=child_metadata(cluster, "toy-0")))
    asyncio.run(cluster.delete(Key("default", "toy-0", "TFJob"), stored.metadata.uid))
    assert jobs_of(cluster) == []


def test_a_pod_group_is_rejected(cluster: LocalCluster) -> None:
    with pytest.raises(Rejected):
        asyncio.run(cluster.create(PodGroup(metadata=child_metadata(cluster, "toy"))))
