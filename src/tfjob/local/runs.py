"""Runs by name: making one from a manifest, finding it again, and removing what it left."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from tfjob.api.types import TFJob
from tfjob.controller.cluster import Key
from tfjob.local import rootfs
from tfjob.local.claims import Claims
from tfjob.local.driver import INTERRUPTED, STOPPED, is_driven, is_interrupted
from tfjob.local.home import Home, boot_id
from tfjob.local.images import chosen_interpreter
from tfjob.local.kubelet import write_whole
from tfjob.local.machine import Options
from tfjob.local.network import Network
from tfjob.local.provenance import provenance
from tfjob.local.refusal import Refusal
from tfjob.local.secrets import Secrets
from tfjob.local.store import Run, Store
from tfjob.plan.limits import expiry
from tfjob.plan.plan import SUSPEND_REASON, is_finished

LATEST = "@latest"


class NameInUse(Refusal):
    """A job of that name has not ended."""


class NotFound(Exception):
    """No run answers to that name."""


@dataclass(frozen=True)
class Submission:
    """A job with everything that it brings along."""

    job: TFJob
    objects: Sequence[dict[str, Any]]
    manifest: bytes
    options: Options


def submit(home: Home, store: Store, submission: Submission, *, attached: bool) -> Run:
    """Stores a job and its objects; the name must be free, or its last run over."""
    job = submission.job
    key = Key(job.metadata.namespace, job.metadata.name)
    refuse_if_in_use(store, key)
    keep_objects(home, store, submission.objects, job.metadata.namespace)
    run = store.add_run(
        job,
        attached=attached,
        boot=boot_id(),
        folder=lambda number: home.run_folder(key.namespace, key.name, number),
    )
    run.folder.mkdir(mode=0o700, parents=True)
    write_whole(run.folder / "manifest.yaml", submission.manifest)
    write_whole(run.folder / "job.json", msgspec.json.format(msgspec.json.encode(run.job)))
    submission.options.save(run.folder)
    project = Path(submission.options.project)
    python = Path(submission.options.python) if submission.options.python else None
    origin = provenance(project, chosen_interpreter(python, project))
    write_whole(run.folder / "provenance.json", msgspec.json.format(msgspec.json.encode(origin)))
    _reserve_addresses(store, run, submission.options)
    return run


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
    if name == LATEST:
        if not runs:
            raise NotFound(f"there is no job in namespace {namespace}")
        return runs[-1]
    exact = [run for run in runs if run.id == name] or [run for run in runs if run.job.metadata.name == name]
    if exact:
        return next((run for run in exact if run.current), exact[-1])
    starting = {run.job.metadata.name: run for run in runs if run.job.metadata.name.startswith(name)}
    if len(starting) == 1:
        return next(iter(starting.values()))
    if starting:
        raise NotFound(f"{name} could be {', '.join(sorted(starting))}: write more of it")
    raise NotFound(f"there is no job {name} in namespace {namespace}; `tfjob ps -a` lists what there is")


def remove(store: Store, run: Run) -> None:
    """Removes a run that nobody drives, with its logs and its record; claims stay."""
    for pod_folder in sorted((run.folder / "pods").glob("*")):
        rootfs.remove_rootfs(pod_folder)
    shutil.rmtree(run.folder, ignore_errors=True)
    store.remove(run.job.metadata.uid)


def _is_expired(run: Run) -> bool:
    """Whether the time to live of a finished job is over; its record stays."""
    until = expiry(run.job, run.job.status)
    return until is not None and until <= datetime.now(UTC)
