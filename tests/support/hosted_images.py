"""The images of the samples on a cluster without a registry: this machine's Python and the folder of the examples.

What an image runs is read in the examples' tfjob.toml, as on a laptop. Manifests stay as a reader has them: the pods
are changed on their way into the cluster.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from devcluster.client import Client
from devcluster.images import BUSYBOX
from devcluster.mounts import HostPython, host_python
from support.hosted_servers import changed_pods, server_patch
from tfjob.local.inputs import images
from tfjob.local.state import config

Object = dict[str, Any]
SHELL = "busybox:1.36"


@contextmanager
def hosted_images(client: Client, namespace: str, examples: Path, folder: Path) -> Iterator[None]:
    """While it is open, pods of a namespace run what the examples' images would, default parameter servers too.

    A share of Azure is the examples' folder for it.
    """
    settings, host = config.load(examples, {}), host_python(examples)

    def patch(spec: Object) -> list[Object]:
        if servers := server_patch(spec, host):
            return [*servers, {"op": "replace", "path": "/spec/containers/0/image", "value": host.image}]
        changed = copy.deepcopy(spec)
        for container in (*changed.get("initContainers", ()), *changed["containers"]):
            fill(container, changed, settings, host)
        for volume in changed.get("volumes", ()):
            if volume.pop("azureFile", None):
                volume["hostPath"] = {"path": str(settings.volumes[volume["name"]])}
        return [{"op": "replace", "path": "/spec", "value": changed}]

    with changed_pods(client, namespace, folder, patch):
        yield


def fill(container: Object, pod: Object, settings: config.Config, host: HostPython) -> None:
    """Gives a container what its image would have."""
    if container["image"] == SHELL:
        container["image"] = BUSYBOX
    if images.find_entry(container["image"], settings) is None:
        return
    image = images.resolve(container, settings, python=None, project=Path("/"))
    path = {"name": "PATH", "value": f"{Path(host.python).parent}:/usr/bin:/bin"}
    container |= {
        "image": host.image,
        "command": container.get("command") or image.command,
        "workingDir": str(image.workdir),
        "env": [*variables(image), *container.get("env", ()), path],
        "volumeMounts": [*container.get("volumeMounts", ()), *host.mounts],
    }
    pod["volumes"] = [*pod.get("volumes", ()), *host.volumes]


def variables(image: images.Runtime) -> list[Object]:
    """What an image sets, first of all: the container's own values come later and win."""
    return [{"name": name, "value": value} for name, value in image.env.items()]
