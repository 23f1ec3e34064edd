"""Writes a root file system as an OCI archive, a file that containerd, podman and skopeo take instead of a registry."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def write(target: Path, name: str, layer: bytes, config: Mapping[str, Any]) -> str:
    """Writes the archive of an image called `name`; returns the digest of its manifest.

    The same layer and config give the same file, byte by byte.
    """
    packed = gzip.compress(layer, compresslevel=6, mtime=0)
    image = encoded(
        {
            "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [digest(layer)]},
        }
    )
    manifest = encoded(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": described("application/vnd.oci.image.config.v1+json", image),
            "layers": [described("application/vnd.oci.image.layer.v1.tar+gzip", packed)],
        }
    )
    names = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.rpartition(":")[2]}
    entry = described("application/vnd.oci.image.manifest.v1+json", manifest) | {"annotations": names}
    files = {
        "oci-layout": encoded({"imageLayoutVersion": "1.0.0"}),
        "index.json": encoded({"schemaVersion": 2, "manifests": [entry]}),
        **{f"blobs/sha256/{digest(blob).partition(':')[2]}": blob for blob in (packed, image, manifest)},
    }
    with tarfile.open(target, "w") as archive:
        for path, content in files.items():
            info = tarfile.TarInfo(path)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return digest(manifest)


def layer_of(folder: Path) -> bytes:
    """A folder as a layer: everything belongs to root, and times and order do not depend on when it was made."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(folder.rglob("*")):
            info = archive.gettarinfo(str(path), str(path.relative_to(folder)))
            info.uid = info.gid = 0
            info.uname = info.gname = ""
            info.mtime = 0
            if info.isreg():
                with path.open("rb") as content:
                    archive.addfile(info, content)
            else:
                archive.addfile(info)
    return buffer.getvalue()


def described(media_type: str, blob: bytes) -> dict[str, Any]:
    """How one blob names another."""
    return {"mediaType": media_type, "digest": digest(blob), "size": len(blob)}


def digest(blob: bytes) -> str:
    """A blob's name."""
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def encoded(value: Any) -> bytes:
    """JSON, always the same."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
