"""This machine's Python in a pod, without an image of two gigabytes: host paths over the shell image."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from devcluster.images import BUSYBOX

SYSTEM = ("/usr", "/lib", "/lib64", "/bin")


@dataclass(frozen=True)
class HostPython:
    """What a pod needs to run an interpreter of this machine with its installed packages."""

    python: str
    image: str = BUSYBOX
    volumes: list[dict[str, Any]] = field(default_factory=list)
    mounts: list[dict[str, Any]] = field(default_factory=list)

    def pod_spec(self, *command: str, name: str = "tensorflow", **container: Any) -> dict[str, Any]:
        """Return a pod spec with one container that runs `python COMMAND ...`."""
        only = {
            "name": name,
            "image": self.image,
            "imagePullPolicy": "IfNotPresent",
            "command": [self.python, *command],
            "volumeMounts": self.mounts,
        }
        return {"restartPolicy": "Never", "containers": [{**only, **container}], "volumes": self.volumes}


def host_python(*more: Path | str) -> HostPython:
    """Return this interpreter and its virtualenv; `more` names further folders, such as that of the code to run."""
    paths = outermost([*SYSTEM, sys.base_prefix, sys.prefix, *map(str, more)])
    names = {path: f"host-{number}" for number, path in enumerate(paths)}
    return HostPython(
        python=sys.executable,
        volumes=[{"name": name, "hostPath": {"path": path}} for path, name in names.items()],
        mounts=[{"name": name, "mountPath": path, "readOnly": True} for path, name in names.items()],
    )


def outermost(paths: Iterable[str]) -> list[str]:
    """Return the paths that exist and are not inside another one, in their order."""
    there = [Path(path) for path in dict.fromkeys(paths) if Path(path).exists()]
    return [str(path) for path in there if not any(other in path.parents for other in there)]
