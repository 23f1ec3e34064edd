"""A submission to this machine: a job or a Deployment with the objects of its manifest, and how it becomes a run."""

from __future__ import annotations

import os
from collections.abc import Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from tfjob.api.objects import JOB_VOLUME, Deployment, ObjectMeta, OwnerReference, Service, own_claim_name
from tfjob.api.types import TFJob
from tfjob.controller.cluster import AlreadyExists
from tfjob.controller.kind import INTERRUPTED, STOPPED, SUSPEND_REASON, Key
from tfjob.jobs.backend import is_suspended, summary
from tfjob.jobs.find import NameInUse
from tfjob.local.jobs.runs import TYPES, edit_owner, is_cut_off, is_expired, job_of, owner_of
from tfjob.local.pod.network import LOOPBACK, Network, published, taken_host_port
from tfjob.local.run.driver_lock import is_driven
from tfjob.local.run.lifetime import Started, keep_objects, remove_run, start_run
from tfjob.local.state.config import Config
from tfjob.local.state.errors import Refusal
from tfjob.local.state.home import Home, write_whole
from tfjob.local.state.options import Options
from tfjob.local.state.store import Run, Store
from tfjob.local.volumes.claims import Claim, Claims
from tfjob.local.volumes.job_storage import filled_claim
from tfjob.plan.build.job_storage import storage_of
from tfjob.plan.build.pods import service
from tfjob.plan.facts.conditions import is_finished
from tfjob.plan.facts.tasks import desired


@dataclass(frozen=True)
class Submission:
    """A job or a Deployment, its Services, the other objects of its manifest, and its options."""

    owner: TFJob | Deployment
    services: Sequence[Service]
    objects: Sequence[dict[str, Any]]
    manifest: bytes
    options: Options
    config: Config
    shares_storage: bool = False

    @property
    def mapped(self) -> Set[str]:
        """The volumes for which the user has chosen a folder."""
        return {*self.config.volumes, *self.options.volumes}


class ForeignStorage(Refusal):
    """The storage of a job contains files of a job in another folder."""

    def __init__(self, name: str, claim: Claim) -> None:
        folders = " and ".join(claim.record.sources)
        super().__init__(
            f"the storage of '{name}' ({claim.folder}) contains files of a job in {folders}",
            "Choose another name with --name, or use the same files with --share-storage.",
        )


def submit(home: Home, store: Store, submission: Submission, *, attached: bool) -> Started:
    owner, options = submission.owner, submission.options
    refuse_if_taken(home, store, submission)
    replaced = store.current(Key(owner.metadata.namespace, owner.metadata.name, owner.kind))
    keep_objects(home, store, submission.objects, owner.metadata.namespace)
    started = start_run(home, store, owner, submission.manifest, options, attached=attached)
    try:
        for service in submission.services:
            _keep_service(store, service, started.run)
        if replaced is not None and not is_finished(summary(owner_of(replaced))):
            message = f"it replaces {replaced.id}, which can no longer be resumed; its record and logs stay"
            store.add_event(started.run.uid, "RunReplaced", message, warning=False, now=datetime.now(UTC))
        if isinstance(owner, TFJob):
            _reserve_addresses(store, started.run, options)
            _report_filled_storage(home, store, started.run, submission.mapped)
    except BaseException:
        os.close(started.lock)
        remove_run(store, started.run)
        raise
    return started


def _keep_service(store: Store, service: Service, run: Run) -> None:
    """Store a Service as a child of a run. Raises Refusal if another run has just taken its name."""
    reference = OwnerReference(
        api_version=run.stored.api_version, kind=run.key.kind, name=run.name, uid=run.uid, controller=True
    )
    try:
        store.create_child(replace(service, metadata=replace(service.metadata, owner_references=[reference])))
    except AlreadyExists:
        _refuse_service(store, service.metadata, run)
        raise


def refuse_if_taken(home: Home, store: Store, submission: Submission) -> None:
    """Raise NameInUse or Refusal if the owner's name, its storage or the name of one of its Services is taken."""
    namespace, name, kind = submission.owner.metadata.namespace, submission.owner.metadata.name, submission.owner.kind
    for other in TYPES.keys() - {kind}:
        found = store.current(Key(namespace, name, other))
        if found is not None and found.root == found.uid:
            text = f"the name '{name}' is taken by a {other} ({found.id})"
            raise Refusal(text, f"Rename the {kind}, or delete the {other}: {_deletion(found)}")
    run = store.current(Key(namespace, name, kind))
    if run is not None and _is_in_use(run):
        state = owner_of(run).status.state or "Pending"
        raise NameInUse(name, namespace, state, run.created, can_change=_can_change(run))
    if foreign := foreign_storage(home, submission):
        raise foreign
    for one in submission.services:
        _refuse_service(store, one.metadata, run)
        _refuse_host_port(store, one)


def _is_in_use(run: Run) -> bool:
    """Return whether a run is neither finished nor stopped nor interrupted."""
    owner = owner_of(run)
    if is_finished(summary(owner)) or is_expired(run):
        return False
    reason = owner.metadata.annotations.get(SUSPEND_REASON)
    return is_driven(run) or not (is_cut_off(run) or reason in (STOPPED, INTERRUPTED))


def _can_change(run: Run) -> bool:
    owner = owner_of(run)
    is_going = owner.metadata.deletion_timestamp is not None or is_suspended(owner)
    return isinstance(owner, Deployment) and run.root == run.uid and _is_in_use(run) and not is_going


def running_server(store: Store, submission: Submission) -> Run | None:
    """Return the run that a submission updates, if there is one. Raises Refusal for changes that are not possible."""
    owner = submission.owner
    run = store.current(Key(owner.metadata.namespace, owner.metadata.name, owner.kind))
    if run is None or not isinstance(owner, Deployment) or not _can_change(run):
        return None
    before, after = asdict(Options.load(run.folder)), asdict(submission.options)
    changed = [name for name in after if name not in ("environ", "pass_env", "source") and after[name] != before[name]]
    if run.decode(Deployment).spec["selector"] != owner.spec["selector"]:
        changed.append("spec.selector")
    if changed:
        text = f"{run.id} runs with a different {', '.join(changed)}, which an update cannot change"
        raise Refusal(text, f"Delete it first: {_deletion(run)}")
    for one in submission.services:
        _refuse_service(store, one.metadata, run)
    return run


def update(home: Home, store: Store, submission: Submission, run: Run) -> bool:
    """Apply a manifest to a running Deployment as `kubectl apply` does; return False if nothing changes."""
    new, present = submission.owner, run.decode(Deployment)
    assert isinstance(new, Deployment)
    keep_objects(home, store, submission.objects, new.metadata.namespace)

    def changed(old: Deployment) -> Deployment:
        kept = {"replicas": old.spec["replicas"]} if "replicas" in old.spec else {}
        metadata = replace(old.metadata, labels=new.metadata.labels, annotations=new.metadata.annotations)
        return replace(old, metadata=metadata, spec={**kept, **new.spec})

    known = {one.metadata.name: one for one in store.children(Service, run.uid)}
    others = [one for one in submission.services if _visible(one) != _visible(known.get(one.metadata.name))]
    if not others and changed(present) == present:
        return False
    for one in others:
        # As a new object, so that the driver opens its ports and closes the old ones.
        if old := known.get(one.metadata.name):
            store.remove_child(old.metadata.uid)
        _keep_service(store, one, run)
    edit_owner(store, run, changed)
    write_whole(run.folder / "manifest.yaml", submission.manifest)
    return True


def _visible(service: Service | None) -> object:
    return service and (service.spec, service.metadata.labels, service.metadata.annotations)


def _refuse_service(store: Store, service: ObjectMeta, run: Run | None) -> None:
    for found in store.objects(Service, service.namespace):
        if found.metadata.name == service.name:
            holder = store.run(found.metadata.owner_references[0].uid)
            if holder is not None and (run is None or holder.uid != run.uid):
                text = f"Service '{service.name}' already belongs to {holder.id}"
                raise Refusal(text, f"Rename the Service, or delete that run: {_deletion(holder)}")


def _refuse_host_port(store: Store, service: Service) -> None:
    """Raise Refusal if a port of 127.0.0.1 that a Service needs is taken."""
    taken = taken_host_port(service)
    if taken is None:
        return
    port, holder = taken
    for run in store.runs():
        if is_driven(run) and any(port in published(store, one).values() for one in store.children(Service, run.uid)):
            holder = run.id
    raise Refusal(f"port {port} of {LOOPBACK} is in use by {holder}", "Choose another port, or stop that program.")


def _deletion(run: Run) -> str:
    return f"tfjob delete {run.name}" + ("" if run.key.namespace == "default" else f" -n {run.key.namespace}")


def _reserve_addresses(store: Store, run: Run, options: Options) -> None:
    """Lease the addresses of all replicas. Raises AddressError before anything starts."""
    job, network = job_of(run), Network(store, run.uid, options.level)
    for task in desired(job):
        network.lease(service(job, task))
    for note in network.notes:
        store.add_event(run.uid, "PortTaken", note, warning=True, now=datetime.now(UTC))


def _report_filled_storage(home: Home, store: Store, run: Run, mapped: Set[str]) -> None:
    """Record an event if the job's storage contains files, such as those of the last run."""
    claim = _filled_storage(home, job_of(run), mapped)
    if claim is not None:
        elsewhere = "" if claim.namespace == "default" else f" -n {claim.namespace}"
        message = (
            f"its storage already contains files ({claim.folder}); to start without them:"
            f" tfjob volume delete {claim.name}{elsewhere}"
        )
        store.add_event(run.uid, "StorageFilled", message, warning=False, now=datetime.now(UTC))


def _filled_storage(home: Home, job: TFJob, mapped: Set[str]) -> Claim | None:
    """Return the claim that is a job's storage if it contains files, unless the user has chosen another folder."""
    if JOB_VOLUME in mapped:
        return None
    return filled_claim(storage_of(job, for_all=True) or ({}, {}), job.metadata.namespace, Claims(home.claims))


def foreign_storage(home: Home, submission: Submission) -> ForeignStorage | None:
    """Return the error for a job whose storage was written from other folders only; None if it may use the storage."""
    job, source = submission.owner, submission.options.source
    if submission.shares_storage or not isinstance(job, TFJob):
        return None
    claim = _filled_storage(home, job, submission.mapped)
    is_foreign = claim is not None and claim.record.sources and source not in claim.record.sources
    return ForeignStorage(job.metadata.name, claim) if claim and is_foreign else None


def sources_of(home: Home, store: Store, namespace: str, name: str) -> set[str]:
    """Return the folders from which jobs of a name were submitted; without those that older releases did not record."""
    claim = Claims(home.claims).find(namespace, own_claim_name(name))
    found = set(claim.record.sources if claim else ())
    for folder in store.folders(namespace, name):
        with suppress(OSError, msgspec.DecodeError):
            found.add(Options.load(folder).source)
    return found - {""}
