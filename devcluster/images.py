"""Images without a registry or an engine: OCI archives, which containerd, podman and skopeo import."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PAUSE = "devcluster.local/pause:1"
BUSYBOX = "devcluster.local/busybox:1"
"""A shell with the usual small tools; use it with `imagePullPolicy: IfNotPresent`."""

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_MEDIA = "application/vnd.oci.image.{}"


def write_busybox(archive: Path, program: Path) -> None:
    """Write a shell image: one static program under all its names, and the folders that programs expect."""
    names = subprocess.run([str(program), "--list"], capture_output=True, text=True, check=True).stdout.split()
    links = {f"bin/{name}": "busybox" for name in names if name != "busybox"}
    write(
        archive, BUSYBOX, {"bin/busybox": program}, ["sh"], links=links, folders=("tmp", "root", "home", "etc", "var")
    )


def write(
    archive: Path,
    reference: str,
    files: Mapping[str, Path],
    command: Sequence[str],
    *,
    links: Mapping[str, str] | None = None,
    folders: Sequence[str] = (),
    working_folder: str = "/",
) -> None:
    """Write an image of one layer: files by their path, symbolic links, and empty folders that everyone may write."""
    config = {
        "Cmd": list(command),
        "Env": ["PATH=/usr/local/bin:/usr/bin:/bin"],
        "WorkingDir": working_folder,
    }
    # Only nodes on this machine load it, so compression would save nothing.
    write_layer(archive, reference, _layer(files, links or {}, folders), config, packed=False)


def write_layer(archive: Path, reference: str, layer: bytes, config: Mapping[str, Any], *, packed: bool = True) -> str:
    """Write an image of an existing layer, with a config in OCI's format; return the digest of its manifest.

    The same layer and config produce the same file, byte by byte.
    """
    # Level 4 takes half the time of the default level 6, for a layer that is 3 % larger.
    blob, kind = (gzip.compress(layer, compresslevel=4, mtime=0), "tar+gzip") if packed else (layer, "tar")
    image = _json(
        {
            "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": _MEDIA.format("manifest.v1+json"),
            "config": _descriptor("config.v1+json", image),
            "layers": [_descriptor(f"layer.v1.{kind}", blob)],
        }
    )
    names = {"io.containerd.image.name": reference, "org.opencontainers.image.ref.name": reference.rpartition(":")[2]}
    index = {"schemaVersion": 2, "manifests": [{**_descriptor("manifest.v1+json", manifest), "annotations": names}]}
    with tarfile.open(archive, "w") as tar:
        _add(tar, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add(tar, "index.json", _json(index))
        for content in (blob, image, manifest):
            _add(tar, f"blobs/{_digest(content).replace(':', '/')}", content)
    return _digest(manifest)


def config_of(archive: Path) -> dict[str, Any]:
    with tarfile.open(archive) as files:

        def read(name: str) -> dict[str, Any]:
            content = files.extractfile(name)
            assert content is not None
            found: dict[str, Any] = json.load(content)
            return found

        def blob(descriptor: Mapping[str, Any]) -> dict[str, Any]:
            return read("blobs/" + descriptor["digest"].replace(":", "/"))

        (only,) = read("index.json")["manifests"]
        config: dict[str, Any] = blob(blob(only)["config"])["config"]
        return config


def layer_of(folder: Path) -> bytes:
    """Return a folder as a layer: owned by root, with times and order that do not depend on when it was made."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path in sorted(folder.rglob("*")):
            entry = tar.gettarinfo(str(path), str(path.relative_to(folder)))
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            entry.mtime = 0
            if entry.isreg():
                with path.open("rb") as content:
                    tar.addfile(entry, content)
            else:
                tar.addfile(entry)
    return layer.getvalue()


def _layer(files: Mapping[str, Path], links: Mapping[str, str], folders: Sequence[str]) -> bytes:
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for name in folders:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777
            tar.addfile(entry)
        for name, source in files.items():
            _add(tar, name, source.read_bytes(), mode=0o755)
        for name, target in links.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
    return layer.getvalue()


def _descriptor(kind: str, blob: bytes) -> dict[str, object]:
    return {"mediaType": _MEDIA.format(kind), "digest": _digest(blob), "size": len(blob)}


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))
