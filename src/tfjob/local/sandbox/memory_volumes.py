"""A pod's volumes in memory, secrets among them; where nothing can be mounted, folders that go with the pod."""

from __future__ import annotations

import base64
import os

from . import rootfs, syscalls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .pod_spec import SecretFile, Tmpfs


class MemoryVolumes:
    """The volumes of one pod; `files` are those of the secret ones, by volume and path."""

    def __init__(
        self, volumes: Sequence[Tmpfs], files: Mapping[str, Mapping[str, SecretFile]], *, mounted: bool
    ) -> None:
        self._volumes = volumes
        self._files = files
        self._mounted = mounted

    def make(self) -> None:
        """Mount them, with their folders and files."""
        for volume in self._volumes:
            path = volume["path"]
            os.makedirs(path, mode=0o700, exist_ok=True)
            if self._mounted:
                mode = "mode=0755" if volume["secret"] else "mode=1777"
                size = f",size={volume['size']}" if volume["size"] else ""
                syscalls.mount("tmpfs", path, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, mode + size)
            for folder in volume.get("folders", []):
                os.makedirs(f"{path}/{folder}", exist_ok=True)
            for name, file in self._files.get(volume["name"], {}).items():
                _write(f"{path}/{name}", base64.b64decode(file["data"]), file["mode"])
            if self._mounted and volume["secret"]:
                syscalls.make_read_only(path)

    def remove(self) -> Iterator[str]:
        """Remove what was not mounted; says what stays."""
        for volume in self._volumes:
            try:
                rootfs.remove_tree(volume["path"])
            except (OSError, rootfs.RootfsBusyError) as error:
                yield f"volume {volume['name']} stays on the disk: {error}"


def _write(path: str, data: bytes, mode: int) -> None:
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        file.write(data)
        os.fchmod(fd, mode)
