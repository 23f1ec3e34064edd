"""What a pod needs to use a node's accelerators: host drivers, environment variables, a resource's current name.

The operator's configuration has an entry for each resource name. It changes new pods, but not the stored job.
"""

from __future__ import annotations

import copy
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tfjob.api.defaults import training_container
from tfjob.plan.build.job_storage import similar_names

Object = dict[str, Any]


@dataclass(frozen=True)
class HostVolume:
    """A folder or file of the node, and where the training container mounts it."""

    name: str
    host_path: str
    mount_path: str


@dataclass(frozen=True)
class Accelerator:
    """What containers that request a resource get; `resource` is the name to request instead, if set."""

    volumes: Sequence[HostVolume] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    resource: str = ""


def equipped(spec: Object, accelerators: Mapping[str, Accelerator]) -> tuple[Object, list[str]]:
    """Return a pod's spec with what its training container needs, and a sentence for each value that is ignored.

    The given spec is not changed. Equipping the result again changes nothing.
    """
    resources = training_container({"spec": spec}).get("resources") or {}
    requested = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    wanted = [name for name in requested if name in accelerators]
    if not wanted:
        return spec, []
    spec, ignored = copy.deepcopy(spec), list[str]()
    training = training_container({"spec": spec})
    for name in wanted:
        for volume in accelerators[name].volumes:
            if not _mount(spec, training, volume):
                other = f"the template mounts another volume at {volume.mount_path}"
                ignored.append(f"{other}; the one configured for {name} is not mounted")
        for variable, value in accelerators[name].variables.items():
            env = training.get("env") or []
            own = next((one for one in env if one.get("name") == variable), None)
            if own is None:
                training["env"] = [*env, {"name": variable, "value": value}]
            elif own.get("value") != value:
                configured = f"the value configured for {name}, {value!r}"
                ignored.append(f"the template sets {variable}; {configured}, is ignored")
        _request(training["resources"], name, accelerators[name].resource or name)
    return spec, ignored


def _mount(spec: Object, training: Object, wanted: HostVolume) -> bool:
    """Mount a folder of the node; return whether the template does not mount something else at its path."""
    mounts, volumes = training.get("volumeMounts") or [], spec.get("volumes") or []

    def is_wanted(name: str | None) -> bool:
        paths = ((one.get("hostPath") or {}).get("path") or "" for one in volumes if one.get("name") == name)
        return any(_same_place(path, wanted.host_path) for path in paths)

    present = [mount for mount in mounts if _same_place(mount.get("mountPath") or "", wanted.mount_path)]
    if present:
        return any(is_wanted(mount.get("name")) for mount in present)
    taken = {volume.get("name") for volume in volumes}
    name = next(name for name in similar_names(wanted.name) if name not in taken or is_wanted(name))
    if name not in taken:
        spec["volumes"] = [*volumes, {"name": name, "hostPath": {"path": wanted.host_path}}]
    training["volumeMounts"] = [*mounts, {"name": name, "mountPath": wanted.mount_path}]
    return True


def _request(resources: Object, name: str, resource: str) -> None:
    """Request another resource instead, as a limit: that is also a request, and devices must have limits."""
    limits, requests = (resources.pop(group, None) or {} for group in ("limits", "requests"))
    if resource != name or not (name in limits or _may_be_overcommitted(name)):
        amount = limits.pop(name, requests.pop(name, None))
        if resource not in limits:
            limits[resource] = requests.pop(resource, amount)
    resources |= {group: amounts for group, amounts in (("limits", limits), ("requests", requests)) if amounts}


def _may_be_overcommitted(resource: str) -> bool:
    """Return whether Kubernetes accepts a request without a limit: for its own resources, not for devices."""
    domain, slash, _ = resource.rpartition("/")
    return not slash or domain == "kubernetes.io" or domain.endswith(".kubernetes.io")


def _same_place(one: str, other: str) -> bool:
    return posixpath.normpath(one) == posixpath.normpath(other)
