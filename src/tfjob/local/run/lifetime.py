"""The start and the removal of a run: its folder, its row, and everything to remove with it."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from tfjob.api.objects import Object, Pod
from tfjob.controller.kind import Key
from tfjob.local.inputs.images import chosen_interpreter
from tfjob.local.inputs.references import Secrets
from tfjob.local.run.driver_lock import acquire_driver_lock
from tfjob.local.run.pod_folder import clean, pod_folder, sweep
from tfjob.local.sandbox import rootfs, supervisor
from tfjob.local.state.home import Home, boot_id, write_whole
from tfjob.local.state.options import Options
from tfjob.local.state.provenance import PROVENANCE_FILE, provenance
from tfjob.local.state.store import Run, Store
from tfjob.local.volumes.claims import Claims

POLL_SECONDS = 0.05


@dataclass(frozen=True)
class Started:
    """A run that was just stored, with the lock of its driver."""

    run: Run
    lock: int


def start_run(home: Home, store: Store, owner: Object, manifest: bytes, options: Options, *, attached: bool) -> Started:
    namespace, name = owner.metadata.namespace, owner.metadata.name
    if last := store.current(Key(namespace, name, owner.kind)):
        end_leftovers(store, last)
        for one in reversed(_family(store, last)):
            store.retire(one.uid)
    project, python = Path(options.project), Path(options.python) if options.python else None
    origin = provenance(project, chosen_interpreter(python, project))
    locks: list[int] = []

    def fill(folder: Path) -> None:
        lock = acquire_driver_lock(folder)
        if lock is not None:
            locks.append(lock)
        write_whole(folder / "manifest.yaml", manifest)
        write_whole(folder / PROVENANCE_FILE, msgspec.json.format(msgspec.json.encode(origin)))
        options.save(folder)

    try:
        run = add_run(home, store, owner, fill, attached=attached, boot=boot_id())
    except BaseException:
        for lock in locks:
            os.close(lock)
        raise
    return Started(run, locks[0])


def add_run(home: Home, store: Store, owner: Object, fill: Callable[[Path], None], **details: Any) -> Run:
    """Store an object as a run with a new folder; `details` are those of `Store.add_run`.

    `fill` completes the folder before other processes see the run: without a driver it would look interrupted, and
    without its files no later driver could continue it.
    """
    namespace, name = owner.metadata.namespace, owner.metadata.name
    # Folders may outlive the database.
    folders = home.run_folder(namespace, name, 0).parent.glob(f"{name}.*")
    numbers = (folder.name.removeprefix(f"{name}.") for folder in folders)
    above = max((int(number) for number in numbers if number.isdecimal()), default=0)
    with ExitStack() as undo:

        def make_folder(number: int) -> Path:
            folder = home.run_folder(namespace, name, number)
            folder.mkdir(mode=0o700, parents=True)
            undo.callback(shutil.rmtree, folder, ignore_errors=True)
            fill(folder)
            return folder

        run = store.add_run(owner, make_folder, above=above, **details)
        write_whole(run.folder / "job.json", msgspec.json.format(run.data))
        undo.pop_all()
    return run


def keep_objects(home: Home, store: Store, objects: Sequence[dict[str, Any]], namespace: str) -> None:
    now = datetime.now(UTC)
    for document in objects:
        metadata = document["metadata"]
        key = Key(metadata.get("namespace") or namespace, metadata["name"], document["kind"])
        match key.kind:
            case "Secret":
                Secrets(home.secrets).put(key, document)
            case "PersistentVolumeClaim":
                Claims(home.claims).declare(document, key.namespace, now)
            case _:
                store.put_object(key, document)


def remove_run(store: Store, run: Run) -> None:
    """Remove a run that has no driver and everything that it owns, with logs and records; claims stay."""
    end_leftovers(store, run)
    for one in reversed(_family(store, run)):
        for folder in sorted((one.folder / "pods").glob("*")):
            rootfs.remove_rootfs(folder)
        shutil.rmtree(one.folder, ignore_errors=True)
        store.remove(one.uid)


def end_leftovers(store: Store, run: Run) -> None:
    """End the pods of a run that has no driver, such as those that `cleanPodPolicy: None` kept."""
    pods = [(pod, pod_folder(one.folder, pod)) for one in _family(store, run) for pod in store.children(Pod, one.uid)]
    for _, folder in pods:
        supervisor.stop(folder)
    while any(supervisor.alive(folder) for _, folder in pods):
        time.sleep(POLL_SECONDS)
    for pod, folder in pods:
        sweep(pod)
        clean(folder)


def _family(store: Store, run: Run) -> list[Run]:
    """Return all runs of a root's tree, the root first; for any other run, just the run."""
    return store.tree(run.uid, everything=True) if run.root == run.uid else [run]
