"""From the volumes of a pod to folders, files and mounts.

`resolve` decides and touches nothing; `prepare` creates folders and writes the files of ConfigMaps. The contents of a
Secret are never written to disk: they go to the supervisor through a pipe. Each kind of volume is one small function;
other kinds are unsupported unless the user maps the volume to a folder.

At levels without mount namespaces, mount paths in strings are replaced with the folders that hold the files. Only whole
paths are replaced: `/data` in `--dir=/data/mnist`, `/a:/data` or `"/data"`, but not in `/data2`, `s3://bucket/data`,
`$HOME/data` or `-I/data`. Paths inside a program cannot be replaced.
"""

from __future__ import annotations

import posixpath
import re
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any

from tfjob.api import quantity
from tfjob.api.objects import Pod
from tfjob.local.inputs import environment
from tfjob.local.inputs.references import Node, References
from tfjob.local.sandbox.pod_spec import Tmpfs
from tfjob.local.state.errors import Refusal
from tfjob.local.volumes.claims import Claim, Claims
from tfjob.local.volumes.projection import File, project

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_PAGE = 4096
_HOST_PATH_TYPES: dict[str, Callable[[int], bool]] = {
    "": lambda mode: True,
    "Directory": stat.S_ISDIR,
    "DirectoryOrCreate": stat.S_ISDIR,
    "File": stat.S_ISREG,
    "FileOrCreate": stat.S_ISREG,
    "Socket": stat.S_ISSOCK,
    "CharDevice": stat.S_ISCHR,
    "BlockDevice": stat.S_ISBLK,
}
# A path begins at the start of the text or after one of these characters. It also begins after `file://`, but not after
# a quote that closes a shell variable ("$HOME"/data).
_BEFORE_PATH = r"""(?:(?<![^\s=:,;(\[{<>|&@!"'`])|(?<=file://))"""
_CLOSED_VARIABLE = re.compile(r"""(?:[})]|\$\w+)["']$""")
# A path ends at the end of the text, before a slash, or before a character that cannot be part of a name.
_AFTER_PATH = r"""(?=$|[/\s=:,;()\[\]{}<>|&@!"'`\\?#])"""


class VolumeError(Refusal):
    """A volume, or a mount of one, that this machine does not support."""


@dataclass(frozen=True)
class Mount:
    """One mount of one container; `sub_path` is a folder or file below the `base` of the volume."""

    volume: str
    base: Path
    sub_path: str
    target: str
    read_only: bool

    @property
    def source(self) -> Path:
        return self.base / self.sub_path if self.sub_path else self.base


@dataclass
class Volumes:
    """What the containers of a pod mount, and what must exist before they start."""

    mounts: dict[str, list[Mount]] = field(default_factory=dict)
    tmpfs: list[Tmpfs] = field(default_factory=list)
    secret_files: dict[str, dict[str, File]] = field(default_factory=dict)
    claims: list[str] = field(default_factory=list)
    files: dict[Path, File] = field(default_factory=dict)
    folders: dict[Path, int] = field(default_factory=dict)
    empty_files: list[Path] = field(default_factory=list)


@dataclass(frozen=True)
class Context:
    """The pod, its folder, and what this machine provides for its volumes."""

    pod: Pod
    folder: Path
    references: References
    node: Node
    claims: Claims
    mapping: Mapping[str, Path] = field(default_factory=dict)


def resolve(
    context: Context,
    variables: Mapping[str, Mapping[str, str]],
    images: Mapping[str, Mapping[str, Path]] | None = None,
) -> Volumes:
    """Return the volumes of a pod; `variables` are for subPathExpr, `images` maps folders of images to others."""
    made = Volumes()
    sources = {volume["name"]: _source(volume, context, made) for volume in context.pod.spec.get("volumes") or []}
    spec = context.pod.spec
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        name = container["name"]
        beneath = {
            target: Mount("image", folder, "", target, read_only=False)
            for target, folder in (images or {}).get(name, {}).items()
        }
        mounts = beneath | _mounts(container, sources, variables.get(name, {}))
        # A mount inside another mount must come after it.
        made.mounts[name] = sorted(mounts.values(), key=lambda mount: mount.target.count("/"))
    in_folders = [mount for some in made.mounts.values() for mount in some if mount.sub_path]
    for tmpfs in made.tmpfs:
        if not tmpfs["secret"]:
            tmpfs["folders"] = sorted({mount.sub_path for mount in in_folders if str(mount.base) == tmpfs["path"]})
    return made


def prepare(volumes: Volumes, context: Context, now: datetime) -> list[Claim]:
    """Create everything that `resolve` decided, and return the undeclared claims that were created."""
    fresh = []
    for name in volumes.claims:
        claim, made = context.claims.ensure(context.pod.metadata.namespace, name, now)
        if made:
            fresh.append(claim)
    try:
        for folder, mode in volumes.folders.items():
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(mode)
        for path in volumes.empty_files:
            path.touch(0o644, exist_ok=True)
        for path, file in volumes.files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            path.write_bytes(file.data)
            path.chmod(file.mode)
        in_memory = {Path(tmpfs["path"]) for tmpfs in volumes.tmpfs}
        for mounts in volumes.mounts.values():
            for mount in mounts:
                if mount.sub_path and mount.base not in in_memory:
                    _make_sub_path(mount)
    except OSError as error:
        raise VolumeError(f"cannot write {error.filename}: {error.strerror}") from None
    return fresh


@dataclass(frozen=True)
class _Source:
    base: Path
    read_only: bool = False


def _source(volume: Mapping[str, Any], context: Context, made: Volumes) -> _Source:
    name = volume["name"]
    if not _NAME.fullmatch(name):
        raise VolumeError(f"invalid volume name '{name}'", "Use lowercase letters, digits and dashes.")
    kind = next((key for key, value in volume.items() if key != "name" and value is not None), "emptyDir")
    details = volume.get(kind) or {}
    if name in context.mapping:
        folder = context.mapping[name]
        if not folder.exists():
            text = f"volume '{name}' is mapped to {folder}, which does not exist"
            raise VolumeError(text, "Create the folder first.")
        return _Source(folder, bool(details.get("readOnly")))
    if kind not in _KINDS:
        raise VolumeError(
            f"volume '{name}': {kind} volumes are not supported on this machine",
            f"Choose a folder to mount instead: --volume {name}=FOLDER, or in the file tfjob.toml of your project:\n"
            f'[volumes]\n{name} = "FOLDER"',
        )
    return _KINDS[kind](name, details, context, made)


def _empty_dir(name: str, details: Mapping[str, Any], context: Context, made: Volumes) -> _Source:
    path = context.folder / "volumes" / name
    if details.get("medium") in (None, ""):
        made.folders[path] = 0o777
    elif details["medium"] == "Memory":
        size = _bytes(name, details.get("sizeLimit"))
        made.tmpfs.append({"name": name, "path": str(path), "size": size, "secret": False})
    else:
        raise VolumeError(f"volume '{name}': emptyDir medium {details['medium']} is not supported on this machine")
    return _Source(path)


def _ephemeral(name: str, details: Mapping[str, Any], context: Context, made: Volumes) -> _Source:
    spec = (details.get("volumeClaimTemplate") or {}).get("spec") or {}
    if spec.get("volumeMode") == "Block" or spec.get("dataSource") or spec.get("dataSourceRef"):
        raise VolumeError(f"volume '{name}': an ephemeral volume is always an empty folder on this machine")
    return _empty_dir(name, {}, context, made)


def _host_path(name: str, details: Mapping[str, Any], context: Context, made: Volumes) -> _Source:
    path, kind = Path(details.get("path") or ""), details.get("type") or ""
    if not path.is_absolute():
        raise VolumeError(f"volume '{name}': hostPath '{path}' must be absolute")
    if kind not in _HOST_PATH_TYPES:
        hint = f"Supported: {', '.join(filter(None, _HOST_PATH_TYPES))}."
        raise VolumeError(f"volume '{name}': unknown hostPath type {kind}", hint)
    try:
        mode = path.stat().st_mode
    except OSError as error:
        # Kubernetes creates an empty folder for an unset type, but a training job that finds no data is useless.
        if kind == "DirectoryOrCreate":
            made.folders[path] = 0o755
        elif kind == "FileOrCreate":
            made.empty_files.append(path)
        else:
            raise VolumeError(
                f"volume '{name}': hostPath {path}: {error.strerror}",
                f"Create it, set type: DirectoryOrCreate, or use another folder with --volume {name}=FOLDER.",
            ) from None
        return _Source(path)
    if not _HOST_PATH_TYPES[kind](mode):
        raise VolumeError(f"volume '{name}': hostPath {path} is not of type {kind}")
    return _Source(path)


def _claim(name: str, details: Mapping[str, Any], context: Context, made: Volumes) -> _Source:
    claim_name, namespace = details.get("claimName") or "", context.pod.metadata.namespace
    folder = context.claims.folder(namespace, claim_name)
    if claim_name not in made.claims:
        made.claims.append(claim_name)
    known = context.claims.find(namespace, claim_name)
    return _Source(folder, bool(details.get("readOnly")) or (known is not None and known.read_only))


def _projected(kind: str) -> Callable[[str, Mapping[str, Any], Context, Volumes], _Source]:
    def source(name: str, details: Mapping[str, Any], context: Context, made: Volumes) -> _Source:
        path = context.folder / "volumes" / name
        projection = project(kind, details, context.pod, context.references, context.node)
        if projection.secret:
            size = sum(-(-len(file.data) // _PAGE) + 1 for file in projection.files.values()) * _PAGE
            made.tmpfs.append({"name": name, "path": str(path), "size": size + 64 * _PAGE, "secret": True})
            made.secret_files[name] = projection.files
        else:
            made.folders[path] = 0o755
            made.files.update({path / inner: file for inner, file in projection.files.items()})
        return _Source(path, read_only=True)

    return source


_KINDS: dict[str, Callable[[str, Mapping[str, Any], Context, Volumes], _Source]] = {
    "emptyDir": _empty_dir,
    "ephemeral": _ephemeral,
    "hostPath": _host_path,
    "persistentVolumeClaim": _claim,
    "configMap": _projected("configMap"),
    "secret": _projected("secret"),
    "downwardAPI": _projected("downwardAPI"),
    "projected": _projected("projected"),
}


def check(volume: Mapping[str, Any], context: Context) -> None:
    """Raise the error that `resolve` would raise for a volume, as far as no ConfigMap or Secret is needed for that."""
    kinds = {kind for kind, value in volume.items() if kind != "name" and value is not None}
    if volume["name"] in context.mapping or not kinds & {"configMap", "secret", "downwardAPI", "projected"}:
        _source(volume, context, Volumes())


def _mounts(
    container: Mapping[str, Any], sources: Mapping[str, _Source], variables: Mapping[str, str]
) -> dict[str, Mount]:
    mounts: dict[str, Mount] = {}
    for wanted in container.get("volumeMounts") or []:
        source = sources[wanted["name"]]
        target = posixpath.normpath("/" + (wanted.get("mountPath") or "")).replace("//", "/")
        sub_path = _sub_path(wanted, variables, f"container '{container['name']}'")
        read_only = source.read_only or bool(wanted.get("readOnly"))
        mounts[target] = Mount(wanted["name"], source.base, sub_path, target, read_only)
    return mounts


def _sub_path(wanted: Mapping[str, Any], variables: Mapping[str, str], where: str) -> str:
    path = wanted.get("subPath") or ""
    if expression := wanted.get("subPathExpr"):
        path = environment.expand(expression, variables)
        if re.search(r"\$\([^)]*\)", path):
            raise VolumeError(f"{where}: subPathExpr '{expression}' uses a variable that env does not define")
    parts = PurePosixPath(path).parts
    if path.startswith("/") or ".." in parts:
        raise VolumeError(f"{where}: subPath '{path}' leads out of its volume", "Use a relative path without '..'.")
    return "/".join(parts)


def _make_sub_path(mount: Mount) -> None:
    base, wanted = mount.base.resolve(), mount.source.resolve()
    if wanted != base and base not in wanted.parents:
        text = f"subPath '{mount.sub_path}' of volume '{mount.volume}' leads out of the volume through a symbolic link"
        raise VolumeError(text)
    if not wanted.exists():
        wanted.mkdir(parents=True)


def _bytes(name: str, size: str | float | None) -> int:
    try:
        return quantity.whole(size or 0)
    except ValueError as error:
        raise VolumeError(f"volume '{name}': sizeLimit: {error}") from None


def rewrite_paths(text: str, mapping: Mapping[str, str]) -> str:
    """Replace every mount path of `mapping` in `text` with its folder; the longest matching path wins."""
    if not mapping:
        return text
    paths = "|".join(re.escape(path) for path in sorted(mapping, key=len, reverse=True))

    def replacement(match: re.Match[str]) -> str:
        if _CLOSED_VARIABLE.search(text, 0, match.start()):
            return match[0]
        return mapping[match[0]]

    return re.sub(f"{_BEFORE_PATH}(?:{paths}){_AFTER_PATH}", replacement, text)


def mount_paths_in(text: str, mapping: Mapping[str, str]) -> list[str]:
    return sorted(path for path, folder in mapping.items() if rewrite_paths(text, {path: folder}) != text)
