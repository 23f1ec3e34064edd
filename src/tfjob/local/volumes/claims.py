"""PersistentVolumeClaims: folders at STATE/claims/NAMESPACE/NAME that no job owns and that outlive all jobs.

The file `.NAME.json` next to each folder records what is known about the claim; names of claims never start with a dot.
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from tfjob.local.state.errors import Refusal
from tfjob.local.state.store import Store

_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_NAMESPACE = re.compile(_LABEL)
_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")
ACCESS_MODES = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")


class ClaimError(Refusal):
    """A claim that cannot be created, found or deleted."""


class Record(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What is recorded about a claim: its requested `size`, and whether a document `declared` it.

    `sources` are the folders of the scripts and manifests whose jobs used it as their storage.
    """

    created: datetime
    declared: bool = False
    access_modes: list[str] = []
    size: str = ""
    sources: list[str] = []


@dataclass(frozen=True)
class Claim:
    """One claim and its folder."""

    namespace: str
    name: str
    folder: Path
    record: Record

    @property
    def read_only(self) -> bool:
        return set(self.record.access_modes) == {"ReadOnlyMany"}


class Claims:
    """All claims below one folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def folder(self, namespace: str, name: str) -> Path:
        if not _NAMESPACE.fullmatch(namespace):
            raise ClaimError(f"invalid namespace '{namespace}'", "Use lowercase letters, digits and dashes.")
        if not _NAME.fullmatch(name) or len(name) > 240:
            raise ClaimError(f"invalid claim name '{name}'", "Use lowercase letters, digits, dashes and dots.")
        return self._root / namespace / name

    def find(self, namespace: str, name: str) -> Claim | None:
        folder = self.folder(namespace, name)
        return Claim(namespace, name, folder, _read(folder)) if folder.is_dir() else None

    def ensure(self, namespace: str, name: str, now: datetime) -> tuple[Claim, bool]:
        """Return the claim of that name, and whether it was created just now."""
        if found := self.find(namespace, name):
            return found, False
        return self._write(namespace, name, Record(created=now)), True

    def declare(self, document: Mapping[str, Any], namespace: str, now: datetime) -> Claim:
        """Create or update the claim of a PersistentVolumeClaim document; existing files stay."""
        meta, spec = document.get("metadata") or {}, document.get("spec") or {}
        name, namespace = meta.get("name") or "", meta.get("namespace") or namespace
        check(document)
        known = self.find(namespace, name)
        record = Record(
            created=known.record.created if known else now,
            declared=True,
            access_modes=list(spec.get("accessModes") or []),
            size=str(((spec.get("resources") or {}).get("requests") or {}).get("storage") or ""),
            sources=known.record.sources if known else [],
        )
        return self._write(namespace, name, record)

    def add_source(self, namespace: str, name: str, source: str) -> None:
        """Record that a job of this folder uses a claim as its storage, if the claim exists."""
        claim = self.find(namespace, name)
        if claim is not None and source not in claim.record.sources:
            self._write(namespace, name, replace(claim.record, sources=[*claim.record.sources, source]))

    def all(self) -> list[Claim]:
        return [
            Claim(namespace, name, self._root / namespace / name, _read(self._root / namespace / name))
            for namespace in _names(self._root, _NAMESPACE)
            for name in _names(self._root / namespace, _NAME)
        ]

    def delete(self, namespace: str, name: str, used_by: Sequence[str]) -> None:
        """Delete a claim and its files. Raises ClaimError while pods use it or something is mounted in it."""
        claim = self.find(namespace, name)
        if claim is None:
            raise ClaimError(f"no claim '{name}' in namespace '{namespace}'")
        if used_by:
            raise ClaimError(f"claim '{name}' is used by {', '.join(sorted(used_by))}", "Stop or delete the job first.")
        if mounted := _mounted_within(claim.folder):
            raise ClaimError(f"claim '{name}' contains a mount: {mounted}", "Unmount it before you delete the claim.")
        # Not a valid claim name, so that an interrupted deletion leaves nothing that looks like a claim.
        trash = claim.folder.with_name(f".deleted-{uuid.uuid4().hex}")
        claim.folder.rename(trash)
        _record_file(claim.folder).unlink(missing_ok=True)
        shutil.rmtree(trash)

    def discard(self, namespace: str, name: str) -> None:
        """Remove a claim that contains only folders. Raises OSError if it contains a file."""
        folder = self.folder(namespace, name)
        for path, _, _ in os.walk(folder, topdown=False):
            Path(path).rmdir()
        _record_file(folder).unlink(missing_ok=True)

    def _write(self, namespace: str, name: str, record: Record) -> Claim:
        folder = self.folder(namespace, name)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = _record_file(folder)
            draft = file.with_name(f"{file.name}.{os.getpid()}")
            draft.write_bytes(msgspec.json.encode(record))
            draft.replace(file)
        except OSError as error:
            raise ClaimError(f"cannot create claim '{name}' in {folder}: {error.strerror}") from None
        return Claim(namespace, name, folder, record)


def size_on_disk(folder: Path) -> int:
    total = 0
    for path, folders, files in os.walk(folder):
        for name in (*folders, *files):
            try:
                total += (Path(path) / name).lstat().st_blocks * 512
            except OSError:
                continue  # a running job may delete its files meanwhile
    return total


def check(document: Mapping[str, Any]) -> None:
    """Raise ClaimError for a PersistentVolumeClaim that a folder cannot satisfy."""
    name, spec = (document.get("metadata") or {}).get("name") or "", document.get("spec") or {}
    for mode in spec.get("accessModes") or []:
        if mode not in ACCESS_MODES:
            raise ClaimError(f"claim '{name}': unknown access mode {mode}", f"Supported: {', '.join(ACCESS_MODES)}.")
    if spec.get("volumeMode") == "Block":
        raise ClaimError(f"claim '{name}': volumeMode Block is not supported: a claim is a folder on this machine")
    for field in ("dataSource", "dataSourceRef"):
        if spec.get(field):
            text = f"claim '{name}': {field} is not supported on this machine"
            raise ClaimError(text, "Copy the files into the claim yourself.")


def _record_file(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.json")


def _read(folder: Path) -> Record:
    """Return the record of a claim; a folder without a readable record is a claim too."""
    try:
        return msgspec.json.decode(_record_file(folder).read_bytes(), type=Record)
    except (OSError, msgspec.DecodeError):
        return Record(created=datetime.fromtimestamp(folder.stat().st_mtime).astimezone())


def _names(folder: Path, valid: re.Pattern[str]) -> list[str]:
    return sorted(entry.name for entry in folder.glob("*") if entry.is_dir() and valid.fullmatch(entry.name))


def _mounted_within(folder: Path) -> Path | None:
    """Return a mount point below `folder`: deleting the folder would delete what is mounted there."""
    from tfjob.local.sandbox.rootfs import mount_points  # imported late: only a deletion needs it

    real = folder.resolve()
    return next((point for point in map(Path, mount_points()) if real in point.parents), None)


def claim_users(store: Store, name: str = "") -> dict[tuple[str, str], list[str]]:
    """Return by namespace and claim the pods that may use it now; for one claim name, or for all."""
    users: dict[tuple[str, str], list[str]] = {}
    for pod in store.pods(name):
        if pod.status.phase in ("Succeeded", "Failed"):
            continue
        for volume in pod.spec.get("volumes") or ():
            claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            if claim:
                users.setdefault((pod.metadata.namespace, claim), []).append(pod.metadata.name)
    return users
