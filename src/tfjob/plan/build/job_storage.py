"""A job's own storage: the volume `tfjob-data`, and the environment variables that name a program's folders in it.

A container that mounts this volume gets these variables, unless the manifest sets them:

    TFJOB_CHECKPOINT_DIR   MOUNT/checkpoints          shared by all replicas
    TFJOB_OUTPUT_DIR       MOUNT/output               shared by all replicas: SavedModels, summaries
    TFJOB_SCRATCH_DIR      MOUNT/scratch/worker-0     the replica's own; not set if the mount is read-only

The manifest says what the volume is. If the settings ask for it, a job that does not name the volume gets one anyway,
as a claim with the job's name.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from itertools import count, islice
from typing import Any

from tfjob.api.types import JOB_VOLUME, REPLICA_TYPES, TFJob
from tfjob.plan.facts.tasks import Task
from tfjob.plan.facts.tf_config import main_template_container

VOLUME = JOB_VOLUME
MOUNT_PATH = "/tfjob-data"
"""Where a volume is mounted that we add, unless something else is there."""
CHECKPOINTS, OUTPUT, SCRATCH = "TFJOB_CHECKPOINT_DIR", "TFJOB_OUTPUT_DIR", "TFJOB_SCRATCH_DIR"
VARIABLES = (CHECKPOINTS, OUTPUT, SCRATCH)
Object = dict[str, Any]
NAME_LENGTH = 63


def claim_name(job_name: str) -> str:
    """Return the claim of a job that names no volume: one for all runs of that name."""
    return f"{job_name}-{VOLUME}"


def storage_of(job: TFJob, *, for_all: bool = False) -> tuple[Object, Object] | None:
    """Return the volume and its mount of the first replica type that has them, else with `for_all` our own."""
    for kind in REPLICA_TYPES:
        replica = job.spec.tf_replica_specs.get(kind)
        spec: Object = ((replica.template if replica else None) or {}).get("spec") or {}
        volume = next((one for one in spec.get("volumes") or () if one.get("name") == VOLUME), None)
        mount = next(filter(None, map(_mount, _containers(spec))), None)
        if volume and mount:
            return volume, {name: value for name, value in mount.items() if name != "readOnly"}
    if not for_all:
        return None
    claim = {"name": VOLUME, "persistentVolumeClaim": {"claimName": claim_name(job.metadata.name)}}
    return claim, {"name": VOLUME, "mountPath": MOUNT_PATH}


def with_storage(job: TFJob, task: Task, spec: Object, *, for_all: bool) -> Object:
    """Return a task's pod spec with the environment variables; `for_all` adds the volume if no container mounts it."""
    storage = storage_of(job, for_all=True) if for_all else None
    if storage and not any(_mount(container) for container in _containers(spec)):
        spec = _mounted(spec, *storage)
    kinds = [kind for kind in ("initContainers", "containers") if spec.get(kind)]
    return {**spec, **{kind: [_told(container, task) for container in spec[kind]] for kind in kinds}}


def _mounted(spec: Object, volume: Object, mount: Object) -> Object:
    """Mount the volume in the main container as the other replicas do, because they share it."""
    main = main_template_container({"spec": spec})
    if not main:
        return spec
    volumes, mounts = spec.get("volumes") or [], main.get("volumeMounts") or []
    taken = {posixpath.normpath(one.get("mountPath") or "") for one in mounts}
    paths = (mount["mountPath"], *(f"/{name}" for name in islice(similar_names(VOLUME), len(taken) + 1)))
    path = next(one for one in paths if posixpath.normpath(one) not in taken)
    mounts = [*mounts, {**mount, "mountPath": path}]
    named = any(one.get("name") == VOLUME for one in volumes)
    return {
        **spec,
        "containers": [{**one, "volumeMounts": mounts} if one is main else one for one in spec["containers"]],
        "volumes": volumes if named else [*volumes, volume],
    }


def _told(container: Object, task: Task) -> Object:
    """Add the environment variables of the task's folders to a container.

    They come before the manifest's own, so that these, and the command, can refer to them by `$(NAME)`.
    """
    mount = _mount(container)
    if mount is None:
        return container
    own = container.get("env") or []
    taken = {one.get("name") for one in own}
    added = [
        entry
        for name, folder in _folders(mount, task).items()
        if name not in taken
        for entry in ({"name": name, "value": folder}, *_brought(container, name))
    ]
    return {**container, "env": [*added, *own]}


def _folders(mount: Mapping[str, Any], task: Task) -> dict[str, str]:
    base = mount["mountPath"]
    shared = {CHECKPOINTS: posixpath.join(base, "checkpoints"), OUTPUT: posixpath.join(base, "output")}
    if mount.get("readOnly"):
        return shared
    return {**shared, SCRATCH: posixpath.join(base, "scratch", task.name)}


def _brought(container: Mapping[str, Any], name: str) -> Iterator[Object]:
    """Return the variables of `envFrom` under `name`: a value in `env` would win, and we cannot read the sources.

    A missing key leaves the variable unchanged.
    """
    for source in container.get("envFrom") or ():
        key = name.removeprefix(source.get("prefix") or "")
        if key == name and source.get("prefix"):
            continue
        for reference, kind in (("configMapRef", "configMapKeyRef"), ("secretRef", "secretKeyRef")):
            if source.get(reference) is not None:
                named = {"name": source[reference].get("name"), "key": key, "optional": True}
                yield {"name": name, "valueFrom": {kind: named}}


def _mount(container: Mapping[str, Any]) -> Object | None:
    """Return how a container mounts the volume; the first mount counts."""
    mounts: list[Object] = container.get("volumeMounts") or []
    return next((one for one in mounts if one.get("name") == VOLUME and one.get("mountPath")), None)


def _containers(spec: Mapping[str, Any]) -> list[Object]:
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]


def similar_names(name: str) -> Iterator[str]:
    """Yield a volume's name, then similar ones for when it is taken."""
    yield name
    for number in count(2):
        suffix = f"-{number}"
        yield name[: NAME_LENGTH - len(suffix)] + suffix
