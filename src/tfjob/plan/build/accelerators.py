"""What a pod needs to use a node's accelerators: host drivers, environment variables, a resource's current name.

The operator's configuration has an entry for each resource name, which is applied when a pod is created. The stored job
does not change.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tfjob.plan.build.job_storage import similar_names
from tfjob.plan.facts.tf_config import main_template_container

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
    training = main_template_container({"spec": spec})
    resources = training.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    wanted = [name for name in asked if name in accelerators]
    if not wanted:
        return spec, []
    equipment = _Equipment(spec, training)
    for name in wanted:
        equipment.add(name, accelerators[name])
    return equipment.result(), equipment.kept


class _Equipment:
    """One pod's spec while it is changed."""

    def __init__(self, spec: Object, training: Object) -> None:
        self._spec = spec
        self._training = training
        self._volumes: list[Object] = list(spec.get("volumes") or ())
        self._mounts: list[Object] = list(training.get("volumeMounts") or ())
        self._variables: list[Object] = list(training.get("env") or ())
        self._resources: Object = dict(training.get("resources") or {})
        self.kept: list[str] = []

    def add(self, name: str, accelerator: Accelerator) -> None:
        for volume in accelerator.volumes:
            self._mount(name, volume)
        for variable, value in accelerator.variables.items():
            self._set(name, variable, value)
        self._request(name, accelerator.resource or name)

    def result(self) -> Object:
        container = {**self._training, "resources": self._resources}
        if self._mounts:
            container["volumeMounts"] = self._mounts
        if self._variables:
            container["env"] = self._variables
        containers = [container if one is self._training else one for one in self._spec["containers"]]
        return {**self._spec, "containers": containers, **({"volumes": self._volumes} if self._volumes else {})}

    def _mount(self, name: str, wanted: HostVolume) -> None:
        there = [mount for mount in self._mounts if _same_place(mount.get("mountPath") or "", wanted.mount_path)]
        if there:
            if not any(self._holds(mount.get("name"), wanted.host_path) for mount in there):
                other = f"the template mounts another volume at {wanted.mount_path}"
                self.kept.append(f"{other}; the one configured for {name} is not mounted")
            return
        self._mounts.append({"name": self._volume(wanted), "mountPath": wanted.mount_path})

    def _volume(self, wanted: HostVolume) -> str:
        """Return the name of the pod's volume with that host path; add one with an unused name if there is none."""
        taken = {volume.get("name") for volume in self._volumes}
        name = next(
            name for name in similar_names(wanted.name) if name not in taken or self._holds(name, wanted.host_path)
        )
        if name not in taken:
            self._volumes.append({"name": name, "hostPath": {"path": wanted.host_path}})
        return name

    def _holds(self, name: str | None, host_path: str) -> bool:
        found = (volume for volume in self._volumes if volume.get("name") == name)
        return any(_same_place((volume.get("hostPath") or {}).get("path") or "", host_path) for volume in found)

    def _set(self, name: str, variable: str, value: str) -> None:
        for own in self._variables:
            if own.get("name") == variable:
                if own.get("value") != value:
                    self.kept.append(
                        f"the template sets {variable}; the value configured for {name}, {value!r}, is ignored"
                    )
                return
        self._variables.append({"name": variable, "value": value})

    def _request(self, name: str, resource: str) -> None:
        """Request another resource instead, as a limit: that is also a request, and devices must have limits."""
        limits, requests = (dict(self._resources.get(group) or {}) for group in ("limits", "requests"))
        if resource == name and (name in limits or _may_be_overcommitted(name)):
            return
        amount = limits.pop(name, requests.pop(name, None))
        if resource not in limits:
            limits[resource] = requests.pop(resource, amount)
        for group, amounts in (("limits", limits), ("requests", requests)):
            self._resources.pop(group, None)
            if amounts:
                self._resources[group] = amounts


def _may_be_overcommitted(resource: str) -> bool:
    """Return whether Kubernetes accepts a request without a limit: for its own resources, not for devices."""
    domain, slash, _ = resource.rpartition("/")
    return not slash or domain == "kubernetes.io" or domain.endswith(".kubernetes.io")


def _same_place(one: str, other: str) -> bool:
    return posixpath.normpath(one) == posixpath.normpath(other)
