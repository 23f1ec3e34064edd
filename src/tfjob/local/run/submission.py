"""A submission: a job with everything that it brings along, how it becomes a run, and how a run is removed."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from tfjob.api.objects import Pod
from tfjob.api.types import KIND, TFJob
from tfjob.controller.kind import Key
from tfjob.jobs.find import NameInUse
from tfjob.local.inputs.images import chosen_interpreter
from tfjob.local.pod.network import Network
from tfjob.local.run.driver_lock import acquire_driver_lock, is_driven, is_expired, is_interrupted
from tfjob.local.run.pod_folder import clean, pod_folder, sweep
from tfjob.local.sandbox import rootfs, supervisor
from tfjob.local.state.config import Config
from tfjob.local.state.home import Home, boot_id, write_whole
from tfjob.local.state.options import Options
from tfjob.local.state.provenance import PROVENANCE_FILE, Provenance, provenance
from tfjob.local.state.secrets import Secrets
from tfjob.local.state.store import Run, Store
from tfjob.local.volumes.claims import Claims
from tfjob.local.volumes.job_storage import filled_claim
from tfjob.plan.build.job_storage import VOLUME
from tfjob.plan.facts.conditions import is_finished
from tfjob.plan.policy.suspension import INTERRUPTED, STOPPED, SUSPEND_REASON

POLL_SECONDS = 0.05


@dataclass(frozen=True)
class Started:
    """A run that was stored just now, with the right to drive it."""

    run: Run
    lock: int


@dataclass(frozen=True)
class Submission:
    """A job, the objects of its manifest, and how it uses this machine."""

    job: TFJob
    objects: Sequence[dict[str, Any]]
    manifest: bytes
    options: Options
    config: Config


def submit(home: Home, store: Store, submission: Submission, *, attached: bool) -> Started:
    """Stores a job and its objects; the name must be free, or its last run over."""
    job = submission.job
    key = Key(job.metadata.namespace, job.metadata.name, KIND)
    refuse_if_in_use(store, key)
    if last := store.current(key):
        end_leftovers(store, last)
        store.retire(last.job.metadata.uid)
    keep_objects(home, store, submission.objects, job.metadata.namespace)
    origin = _origin(submission.options)
    made: list[Path] = []
    locks: list[int] = []

    def make_folder(number: int) -> Path:
        # Before the row is there for others to see: a run without a driver would look cut off, and one without this
        # record, should we be killed now, could not be driven by anybody.
        folder = home.run_folder(key.namespace, key.name, number)
        folder.mkdir(mode=0o700, parents=True)
        made.append(folder)
        lock = acquire_driver_lock(folder)
        if lock is not None:
            locks.append(lock)
        write_whole(folder / "manifest.yaml", submission.manifest)
        write_whole(folder / PROVENANCE_FILE, msgspec.json.format(msgspec.json.encode(origin)))
        submission.options.save(folder)
        return folder

    try:
        run = store.add_run(
            job, attached=attached, boot=boot_id(), folder=make_folder, above=_highest_number(home, key)
        )
    except BaseException:
        for lock in locks:
            os.close(lock)
        for folder in made:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    try:
        write_whole(run.folder / "job.json", msgspec.json.format(msgspec.json.encode(run.job)))
        _reserve_addresses(store, run, submission.options)
        _report_filled_storage(home, store, run, {*submission.config.volumes, *submission.options.volumes})
    except BaseException:
        remove_run(store, run)
        raise
    return Started(run, locks[0])


def _origin(options: Options) -> Provenance:
    project = Path(options.project)
    python = Path(options.python) if options.python else None
    return provenance(project, chosen_interpreter(python, project))


def _highest_number(home: Home, key: Key) -> int:
    """The highest number among the folders of a name: they may outlive the database."""
    folders = home.run_folder(key.namespace, key.name, 0).parent.glob(f"{key.name}.*")
    numbers = (folder.name.removeprefix(f"{key.name}.") for folder in folders)
    return max((int(number) for number in numbers if number.isdecimal()), default=0)


def _reserve_addresses(store: Store, run: Run, options: Options) -> None:
    network = Network(store, run, options.level)
    network.reserve()
    for note in network.notes:
        store.add_event(run.job.metadata.uid, "PortTaken", note, warning=True, now=datetime.now(UTC))


def _report_filled_storage(home: Home, store: Store, run: Run, mapped: Set[str]) -> None:
    """Record an event if the job's storage holds files: a job of that name in another project may have left them.

    A user who maps the volume to a folder knows what is in it.
    """
    if VOLUME in mapped:
        return
    claim = filled_claim(run.job, Claims(home.claims))
    if claim is not None:
        elsewhere = "" if claim.namespace == "default" else f" -n {claim.namespace}"
        message = (
            f"its storage holds files already ({claim.folder}); to begin without them:"
            f" tfjob volume delete {claim.name}{elsewhere}"
        )
        store.add_event(run.job.metadata.uid, "StorageFilled", message, warning=False, now=datetime.now(UTC))


def refuse_if_in_use(store: Store, key: Key) -> None:
    """Raises NameInUse unless the job of that name is over, or was cut off while it was attached."""
    run = store.current(key)
    if run is None or is_finished(run.job.status) or is_expired(run):
        return
    reason = run.job.metadata.annotations.get(SUSPEND_REASON)
    if not is_driven(run) and (is_interrupted(run) or reason in (STOPPED, INTERRUPTED)):
        return
    state = run.job.status.state or "Pending"
    raise NameInUse(key.name, key.namespace, state, run.created)


def keep_objects(home: Home, store: Store, objects: Sequence[dict[str, Any]], namespace: str) -> None:
    """Stores the ConfigMaps, Secrets and claims of a manifest, each where its kind belongs."""
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
    """Removes a run that nobody drives, with its logs and its record; claims stay."""
    end_leftovers(store, run)
    for folder in sorted((run.folder / "pods").glob("*")):
        rootfs.remove_rootfs(folder)
    shutil.rmtree(run.folder, ignore_errors=True)
    store.remove(run.job.metadata.uid)


def end_leftovers(store: Store, run: Run) -> None:
    """Ends the pods of a run that nobody drives, such as those that `cleanPodPolicy: None` kept."""
    pods = store.children(Pod, run.job.metadata.uid)
    folders = [pod_folder(run.folder, pod) for pod in pods]
    for folder in folders:
        supervisor.stop(folder)
    while any(supervisor.alive(folder) for folder in folders):
        time.sleep(POLL_SECONDS)
    for pod, folder in zip(pods, folders, strict=True):
        sweep(pod)
        clean(folder)
