"""The storage of a job on this machine: where it is, its folders, and its removal if it stays empty."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath

from tfjob.api.types import TFJob
from tfjob.controller.kind import Key
from tfjob.local.state.store import Store
from tfjob.local.volumes.claims import Claim, Claims, claim_users
from tfjob.local.volumes.volumes import Mount, VolumeError
from tfjob.plan.build.job_storage import VARIABLES, VOLUME, claim_name, storage_of


def make_folders(variables: Mapping[str, str], mounts: Iterable[Mount]) -> None:
    """Create the folders of the job's storage that a container's environment variables name."""
    for mount in mounts:
        if mount.volume != VOLUME or mount.read_only or not mount.base.is_dir():
            continue
        for path in (PurePosixPath(variables[name]) for name in VARIABLES if variables.get(name)):
            if path.is_relative_to(mount.target):
                folder = mount.source / path.relative_to(mount.target)
                try:
                    folder.mkdir(parents=True, exist_ok=True)
                except OSError as error:
                    raise VolumeError(f"cannot create {folder}: {error.strerror}") from None


def folder_of(job: TFJob, claims: Claims, mapping: Mapping[str, Path]) -> Path | None:
    """Return the folder of a job's storage if it contains a file; `mapping` maps volumes to folders."""
    found = storage_of(job, for_all=True)
    if found is None:
        return None
    volume, mount = found
    claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
    path = (volume.get("hostPath") or {}).get("path")
    folder = mapping.get(VOLUME) or (claims.folder(job.metadata.namespace, claim) if claim else path and Path(path))
    whole = folder / (mount.get("subPath") or "") if folder else None
    return whole if whole and _holds_files(whole) else None


def filled_claim(job: TFJob, claims: Claims) -> Claim | None:
    volume, mount = storage_of(job, for_all=True) or ({}, {})
    name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
    claim = claims.find(job.metadata.namespace, name) if name else None
    return claim if claim and _holds_files(claim.folder / (mount.get("subPath") or "")) else None


def discard_unused(job: Key, store: Store, claims: Claims) -> None:
    """Remove the claim that tfjob created for a job, if it contains no file and no pod uses it."""
    namespace, name = job.namespace, claim_name(job.name)
    claim = claims.find(namespace, name)
    if claim is None or claim.record.declared or _holds_files(claim.folder):
        return
    if not claim_users(store, name).get((namespace, name)):
        with suppress(OSError):  # a file has appeared meanwhile
            claims.discard(namespace, name)


def _holds_files(folder: Path) -> bool:
    return any(files for _, _, files in os.walk(folder))
