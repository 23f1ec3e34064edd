"""Which pods of this machine a forwarded port leads to."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tfjob.api.objects import Deployment, ObjectMeta, OwnerReference, Pod, Service
from tfjob.jobs.backend import NotFound, Record
from tfjob.local.jobs.port_forward import LocalPlace
from tfjob.local.state.store import open_store

LABELS = {"app": "web"}


async def no_job(name: str) -> Record:
    raise NotFound(f"there is no job {name}")


@pytest.mark.parametrize("kind", [Deployment, Service])
def test_pods_of_another_run_with_the_same_labels_are_not_reached(
    kind: type[Deployment] | type[Service], tmp_path: Path
) -> None:
    store = open_store(tmp_path / "state.db")
    for name in ("one", "two"):
        metadata = ObjectMeta(name=name, namespace="default")
        owner = Deployment(metadata=metadata, spec={"selector": {"matchLabels": LABELS}})
        run = store.add_run(owner, attached=False, boot="b", folder=lambda number: tmp_path)
        owners = [OwnerReference(name=name, uid=run.uid)]
        child = ObjectMeta(name=name, namespace="default", labels=LABELS, owner_references=owners)
        store.create_child(Pod(metadata=child))
        store.create_child(Service(metadata=child, spec={"selector": LABELS}))

    async def reached() -> list[list[str]]:
        place = LocalPlace(store, "default", no_job)
        owners = await place.objects(kind, {})
        return [[pod.metadata.name for pod in await place.pods_of(owner)] for owner in owners]

    assert asyncio.run(reached()) == [["one"], ["two"]]
