"""A submission to this machine: a job with the objects of its manifest, and how it becomes a run."""

from __future__ import annotations

import os
from collections.abc import Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tfjob.api.types import KIND, TFJob
from tfjob.controller.kind import INTERRUPTED, STOPPED, Key
from tfjob.jobs.find import NameInUse
from tfjob.local.jobs.runs import is_cut_off, is_expired, job_of
from tfjob.local.pod.network import Network
from tfjob.local.run.driver_lock import is_driven
from tfjob.local.run.lifetime import Started, keep_objects, remove_run, start_run
from tfjob.local.state.config import Config
from tfjob.local.state.home import Home
from tfjob.local.state.options import Options
from tfjob.local.state.store import Run, Store
from tfjob.local.volumes.claims import Claims
from tfjob.local.volumes.job_storage import filled_claim
from tfjob.plan.build.job_storage import VOLUME
from tfjob.plan.facts.conditions import is_finished
from tfjob.plan.policy.suspension import SUSPEND_REASON


@dataclass(frozen=True)
class Submission:
    """A job, the objects of its manifest, and how it uses this machine."""

    job: TFJob
    objects: Sequence[dict[str, Any]]
    manifest: bytes
    options: Options
    config: Config


def submit(home: Home, store: Store, submission: Submission, *, attached: bool) -> Started:
    """Store a job and its objects; the name must be free, or its last run over."""
    job, options = submission.job, submission.options
    refuse_if_in_use(store, Key(job.metadata.namespace, job.metadata.name, KIND))
    keep_objects(home, store, submission.objects, job.metadata.namespace)
    started = start_run(home, store, job, submission.manifest, options, attached=attached)
    try:
        _reserve_addresses(store, started.run, options)
        _report_filled_storage(home, store, started.run, {*submission.config.volumes, *options.volumes})
    except BaseException:
        os.close(started.lock)
        remove_run(store, started.run)
        raise
    return started


def refuse_if_in_use(store: Store, key: Key) -> None:
    """Raise NameInUse unless the job of that name is over, or was stopped or interrupted."""
    run = store.current(key)
    if run is None or is_finished(job_of(run).status) or is_expired(run):
        return
    reason = job_of(run).metadata.annotations.get(SUSPEND_REASON)
    if not is_driven(run) and (is_cut_off(run) or reason in (STOPPED, INTERRUPTED)):
        return
    raise NameInUse(key.name, key.namespace, job_of(run).status.state or "Pending", run.created)


def _reserve_addresses(store: Store, run: Run, options: Options) -> None:
    network = Network(store, run, options.level)
    network.reserve()
    for note in network.notes:
        store.add_event(run.uid, "PortTaken", note, warning=True, now=datetime.now(UTC))


def _report_filled_storage(home: Home, store: Store, run: Run, mapped: Set[str]) -> None:
    """Record an event if the job's storage holds files: a job of that name in another project may have left them.

    A user who maps the volume to a folder knows what is in it.
    """
    if VOLUME in mapped:
        return
    claim = filled_claim(job_of(run), Claims(home.claims))
    if claim is not None:
        elsewhere = "" if claim.namespace == "default" else f" -n {claim.namespace}"
        message = (
            f"its storage holds files already ({claim.folder}); to begin without them:"
            f" tfjob volume delete {claim.name}{elsewhere}"
        )
        store.add_event(run.uid, "StorageFilled", message, warning=False, now=datetime.now(UTC))
