"""How the lines of a container are called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def container_labels(replica: str, pod_spec: Mapping[str, Any]) -> dict[str, str]:
    """What the lines of each container are called: like the replica when it is the only one but for init containers."""
    first = [container["name"] for container in pod_spec.get("initContainers") or []]
    main = [container["name"] for container in pod_spec.get("containers") or []]
    alone = len(main) == 1
    return {name: f"{replica}/{name}" for name in first} | {
        name: replica if alone else f"{replica}/{name}" for name in main
    }
