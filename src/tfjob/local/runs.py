"""Runs by name: making one from a manifest, finding it again, and removing what it left."""

from __future__ import annotations

import difflib
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from tfjob.api.objects import Pod
from tfjob.api.types import TFJob
from tfjob.controller.cluster import Key
from tfjob.local import driving_lock, rootfs, supervisor
from tfjob.local.claims import Claims
from tfjob.local.driver import INTERRUPTED, STOPPED, is_driven, is_interrupted
from tfjob.local.home import Home, boot_id
from tfjob.local.images import chosen_interpreter
from tfjob.local.kubelet import clean, pod_folder, sweep, write_whole
from tfjob.local.machine import Options
from tfjob.local.network import Network
from tfjob.local.provenance import provenance
from tfjob.local.refusal import Refusal
from tfjob.local.secrets import Secrets
from tfjob.local.store import Run, Store
from tfjob.plan.limits import expiry
from tfjob.plan.plan import SUSPEND_REASON, is_finished

LATEST = "@latest"
POLL_SECONDS = 0.05


class NameInUse(Refusal):
    """A job of that name has not ended."""


class NotFound(Refusal):
    """No run answers to that name."""


@dataclass(frozen=True)
class Started:
    """A run that was stored just now, with the right to drive it."""

    run: Run
    lock: int


@dataclass(frozen=True)
class Submission:
    """A job with everything that it brings along."""

    job: TFJob
    objects: Sequence[dict[str, Any]]
    manifest: bytes
    options: Options


def submit(home: Home, store: Store, submission: Submission, *, attached: bool) -> Started:
    """Stores a job and its objects; the name must be free, or its last run over."""
    job = submission.job
    key = Key(job.metadata.namespace, job.metadata.name)
    refuse_if_in_use(store, key)
    if last := store.current(key):
        end_leftovers(store, last)
        store.retire(last.job.metadata.uid)
    keep_objects(home, store, submission.objects, job.metadata.namespace)
    locks: list[int] = []

    def make_folder(number: int) -> Path:
        # Before the row is there for others to see: a run without a driver would look cut off.
        folder = home.run_folder(key.namespace, key.name, number)
        folder.mkdir(mode=0o700, parents=True)
        lock = driving_lock.take(folder)
        if lock is not None:
            locks.append(lock)
        return folder

    run = store.add_run(job, attached=attached, boot=boot_id(), folder=make_folder, above=_highest_number(home, key))
    try:
        _write_record(run, submission)
        _reserve_addresses(store, run, submission.options)
    except BaseException:
        remove(store, run)
        raise
    return Started(run, locks[0])


def _write_record(run: Run, submission: Submission) -> None:
    write_whole(run.folder / "manifest.yaml", submission.manifest)
    write_whole(run.folder / "job.json", msgspec.json.format(msgspec.json.encode(run.job)))
    submission.options.save(run.folder)
    project = Path(submission.options.project)
    python = Path(submission.options.python) if submission.options.python else None
    origin = provenance(project, chosen_interpreter(python, project))
    write_whole(run.folder / "provenance.json", msgspec.json.format(msgspec.json.encode(origin)))


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


def refuse_if_in_use(store: Store, key: Key) -> None:
    """Raises NameInUse unless the job of that name is over, or was cut off while it was attached."""
    run = store.current(key)
    if run is None or is_finished(run.job.status) or _is_expired(run):
        return
    reason = run.job.metadata.annotations.get(SUSPEND_REASON)
    if not is_driven(run) and (is_interrupted(run) or reason in (STOPPED, INTERRUPTED)):
        return
    state = run.job.status.state or "Pending"
    raise NameInUse(
        f"job {key.name} exists and is {state} (since {run.created:%Y-%m-%d %H:%M:%S} UTC)",
        f"Choose another name with --name, or end it: tfjob delete {key.name}",
    )


def keep_objects(home: Home, store: Store, objects: Sequence[dict[str, Any]], namespace: str) -> None:
    """Stores the ConfigMaps, Secrets and claims of a manifest, each where its kind belongs."""
    now = datetime.now(UTC)
    for document in objects:
        metadata = document["metadata"]
        key = Key(metadata.get("namespace") or namespace, metadata["name"])
        match document["kind"]:
            case "Secret":
                Secrets(home.secrets).put(key, document)
            case "PersistentVolumeClaim":
                Claims(home.claims).declare(document, key.namespace, now)
            case kind:
                store.put_object(kind, key, document)


def listed(store: Store, namespace: str | None = None, *, everything: bool = False) -> list[Run]:
    """The runs that `ps` shows: those whose name means them, or all."""
    runs = store.runs(namespace, current=None if everything else True)
    return runs if everything else [run for run in runs if not _is_expired(run)]


def find(store: Store, name: str, namespace: str) -> Run:
    """The run that `name` means: a job's name, a run's id (`mnist.1`), `@latest`, or a unique beginning."""
    runs = store.runs(namespace)
    if name == LATEST and runs:
        return runs[-1]
    exact = [run for run in runs if run.id == name] or [run for run in runs if run.job.metadata.name == name]
    if exact:
        return _current(exact)
    starting: dict[str, list[Run]] = {}
    for run in runs if name else ():
        if run.job.metadata.name.startswith(name):
            starting.setdefault(run.job.metadata.name, []).append(run)
    if len(starting) == 1:
        return _current(next(iter(starting.values())))
    if starting:
        raise NotFound(f"{name} could be {', '.join(sorted(starting))}", "Write more of it.")
    raise _not_found(store, name, namespace)


def _current(runs: Sequence[Run]) -> Run:
    return next((run for run in runs if run.current), runs[-1])


def _not_found(store: Store, name: str, namespace: str) -> NotFound:
    message = f"there is no job{'' if name == LATEST else ' ' + name} in namespace {namespace}"
    elsewhere = sorted(
        {run.key.namespace for run in store.runs() if name in (LATEST, run.key.name, run.id)} - {namespace}
    )
    if elsewhere:
        return NotFound(message, f"There is one in namespace {elsewhere[0]}: add -n {elsewhere[0]}.")
    known = {run.key.name for run in store.runs(namespace)}
    if near := difflib.get_close_matches(name, known, n=1):
        return NotFound(message, f"Did you mean {near[0]}?")
    return NotFound(message, "`tfjob ps -a` lists what there is." if known else "Start one with: tfjob run FILE")


def remove(store: Store, run: Run) -> None:
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


def _is_expired(run: Run) -> bool:
    """Whether the time to live of a finished job is over; its record stays."""
    until = expiry(run.job, run.job.status)
    return until is not None and until <= datetime.now(UTC)
