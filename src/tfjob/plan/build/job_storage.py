"""The storage of a job: the volume `tfjob-data`, and environment variables with the paths of folders in it.

A container that mounts this volume gets these environment variables, unless the manifest sets them:

    TFJOB_CHECKPOINT_DIR   MOUNT/checkpoints          shared by all replicas
    TFJOB_OUTPUT_DIR       MOUNT/output               shared by all replicas: SavedModels, summaries
    TFJOB_SCRATCH_DIR      MOUNT/scratch/worker-0     the replica's own; not set if the mount is read-only

The manifest defines the volume. With the setting `storage_for_all`, a job without one gets a claim with the job's name.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from itertools import count, islice
from typing import Any

from tfjob.api.defaults import training_container
from tfjob.api.objects import JOB_FOLDERS, JOB_MOUNT_PATH, JOB_VOLUME, own_claim_name
from tfjob.api.types import REPLICA_TYPES, TFJob
from tfjob.plan.facts.tasks import Task

CHECKPOINTS, OUTPUT, SCRATCH = JOB_FOLDERS
Object = dict[str, Any]
NAME_LENGTH = 63


def storage_of(job: TFJob, *, for_all: bool = False) -> tuple[Object, Object] | None:
    """Return the volume and its mount in the first replica type that has them, else ours if `for_all`."""
    for kind in REPLICA_TYPES:
        replica = job.spec.tf_replica_specs.get(kind)
        spec: Object = ((replica.template if replica else None) or {}).get("spec") or {}
        volume = next((one for one in spec.get("volumes") or () if one.get("name") == JOB_VOLUME), None)
        mount = next(filter(None, map(_mount, _containers(spec))), None)
        if volume and mount:
            return volume, {name: value for name, value in mount.items() if name != "readOnly"}
    if not for_all:
        return None
    claim = {"name": JOB_VOLUME, "persistentVolumeClaim": {"claimName": own_claim_name(job.metadata.name)}}
    return claim, {"name": JOB_VOLUME, "mountPath": JOB_MOUNT_PATH}


def with_storage(job: TFJob, task: Task, spec: Object, *, for_all: bool) -> Object:
    """Return a task's pod spec with the environment variables; `for_all` adds the volume if no container mounts it."""
    storage = storage_of(job, for_all=True) if for_all else None
    if storage and not any(_mount(container) for container in _containers(spec)):
        spec = _mounted(spec, *storage)
    kinds = [kind for kind in ("initContainers", "containers") if spec.get(kind)]
    return {**spec, **{kind: [_with_variables(container, task) for container in spec[kind]] for kind in kinds}}


def _mounted(spec: Object, volume: Object, mount: Object) -> Object:
    """Mount the volume in the main container, at the same path as in the other replicas."""
    main = training_container({"spec": spec})
    if not main:
        return spec
    volumes, mounts = spec.get("volumes") or [], main.get("volumeMounts") or []
    taken = {posixpath.normpath(one.get("mountPath") or "") for one in mounts}
    paths = (mount["mountPath"], *(f"/{name}" for name in islice(similar_names(JOB_VOLUME), len(taken) + 1)))
    path = next(one for one in paths if posixpath.normpath(one) not in taken)
    mounts = [*mounts, {**mount, "mountPath": path}]
    named = any(one.get("name") == JOB_VOLUME for one in volumes)
    return {
        **spec,
        "containers": [{**one, "volumeMounts": mounts} if one is main else one for one in spec["containers"]],
        "volumes": volumes if named else [*volumes, volume],
    }


def _with_variables(container: Object, task: Task) -> Object:
    """Add the environment variables, before those of the manifest, which can then refer to them by `$(NAME)`."""
    mount = _mount(container)
    if mount is None:
        return container
    base, own = mount["mountPath"], container.get("env") or []
    taken = {one.get("name") for one in own}
    folders = {CHECKPOINTS: "checkpoints", OUTPUT: "output"}
    if not mount.get("readOnly"):
        folders[SCRATCH] = f"scratch/{task.name}"
    added = [
        entry
        for name, folder in folders.items()
        if name not in taken
        for entry in ({"name": name, "value": posixpath.join(base, folder)}, *_from_sources(container, name))
    ]
    return {**container, "env": [*added, *own]}


def _from_sources(container: Mapping[str, Any], name: str) -> Iterator[Object]:
    """Yield references to `name` in the sources of `envFrom`, over which our value in `env` would take precedence.

    A reference to a missing key leaves the variable unchanged.
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
    mounts: list[Object] = container.get("volumeMounts") or []
    return next((one for one in mounts if one.get("name") == JOB_VOLUME and one.get("mountPath")), None)


def _containers(spec: Mapping[str, Any]) -> list[Object]:
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]


def similar_names(name: str) -> Iterator[str]:
    """Yield a volume's name, then similar names in case it is taken."""
    yield name
    for number in count(2):
        suffix = f"-{number}"
        yield name[: NAME_LENGTH - len(suffix)] + suffix
