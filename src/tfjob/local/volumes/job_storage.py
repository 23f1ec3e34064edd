"""The storage of a job on this machine: where it is, its folders, and its removal if it stays empty."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

from tfjob.api.objects import JOB_FOLDERS, JOB_VOLUME, own_claim_name
from tfjob.controller.kind import Key
from tfjob.local.state.store import Store
from tfjob.local.volumes.claims import Claim, Claims, claim_users
from tfjob.local.volumes.volumes import Context, Mount, VolumeError


def make_folders(variables: Mapping[str, str], mounts: Iterable[Mount]) -> None:
    """Create the folders of the job's storage that a container's environment variables name."""
    for mount in mounts:
        if mount.volume != JOB_VOLUME or mount.read_only or not mount.base.is_dir():
            continue
        for path in (PurePosixPath(variables[name]) for name in JOB_FOLDERS if variables.get(name)):
            if path.is_relative_to(mount.target):
                folder = mount.source / path.relative_to(mount.target)
                try:
                    folder.mkdir(parents=True, exist_ok=True)
                except OSError as error:
                    raise VolumeError(f"cannot create {folder}: {error.strerror}") from None


def record_source(context: Context, source: str) -> None:
    """Record the folder of a job, if it is known, in the claim that a pod uses as the job's storage."""
    pod = context.pod
    volumes: list[dict[str, Any]] = pod.spec.get("volumes") or []
    volume = next((one for one in volumes if one["name"] == JOB_VOLUME), {})
    claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
    if claim and source and JOB_VOLUME not in context.mapping:
        context.claims.add_source(pod.metadata.namespace, claim, source)


Storage = tuple[dict[str, Any], dict[str, Any]]
"""A volume of a pod, and how it is mounted."""


def folder_of(storage: Storage, namespace: str, claims: Claims, mapping: Mapping[str, Path]) -> Path | None:
    """Return the folder of a job's storage if it contains a file; `mapping` maps volumes to folders."""
    volume, mount = storage
    claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
    path = (volume.get("hostPath") or {}).get("path")
    folder = mapping.get(JOB_VOLUME) or (claims.folder(namespace, claim) if claim else path and Path(path))
    whole = folder / (mount.get("subPath") or "") if folder else None
    return whole if whole and _holds_files(whole) else None


def filled_claim(storage: Storage, namespace: str, claims: Claims) -> Claim | None:
    volume, mount = storage
    name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
    claim = claims.find(namespace, name) if name else None
    return claim if claim and _holds_files(claim.folder / (mount.get("subPath") or "")) else None


def discard_unused(job: Key, store: Store, claims: Claims) -> None:
    """Remove the claim that tfjob created for a job, if it contains no file and no pod uses it."""
    namespace, name = job.namespace, own_claim_name(job.name)
    claim = claims.find(namespace, name)
    if claim is None or claim.record.declared or _holds_files(claim.folder):
        return
    if not claim_users(store, name).get((namespace, name)):
        with suppress(OSError):  # a file has appeared meanwhile
            claims.discard(namespace, name)


def _holds_files(folder: Path) -> bool:
    return any(files for _, _, files in os.walk(folder))
