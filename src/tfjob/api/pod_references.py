"""What a pod refers to by name, and where it says so; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tfjob.api.problems import Path

CONFIG_MAP, SECRET, CLAIM = "ConfigMap", "Secret", "PersistentVolumeClaim"


class Reference(NamedTuple):
    """An object that must exist, with some of its keys, for a pod to start."""

    kind: str
    name: str
    path: Path
    keys: tuple[str, ...] = ()


def references(pod: Mapping[str, Any]) -> Iterator[Reference]:
    """The ConfigMaps, Secrets and claims that a pod spec cannot do without; paths begin in the spec."""
    for index, volume in enumerate(pod.get("volumes") or ()):
        yield from _of_volume(volume, ("volumes", index))
    for group in ("initContainers", "containers"):
        for index, container in enumerate(pod.get(group) or ()):
            yield from _of_environment(container, (group, index))


def _of_volume(volume: Mapping[str, Any], path: Path) -> Iterator[Reference]:
    claim = volume.get("persistentVolumeClaim") or {}
    if claim.get("claimName"):
        yield Reference(CLAIM, claim["claimName"], (*path, "persistentVolumeClaim", "claimName"))
    yield from _of_source(volume, path)
    for index, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
        yield from _of_source(source, (*path, "projected", "sources", index))


def _of_source(source: Mapping[str, Any], path: Path) -> Iterator[Reference]:
    for field, kind in (("configMap", CONFIG_MAP), ("secret", SECRET)):
        given = source.get(field) or {}
        named = "secretName" if given.get("secretName") else "name"
        if given.get(named) and not given.get("optional"):
            keys = tuple(item["key"] for item in given.get("items") or () if item.get("key"))
            yield Reference(kind, given[named], (*path, field, named), keys)


def _of_environment(container: Mapping[str, Any], path: Path) -> Iterator[Reference]:
    for index, variable in enumerate(container.get("env") or ()):
        for field, kind in (("configMapKeyRef", CONFIG_MAP), ("secretKeyRef", SECRET)):
            given = (variable.get("valueFrom") or {}).get(field) or {}
            if given.get("name") and not given.get("optional"):
                keys = (given["key"],) if given.get("key") else ()
                yield Reference(kind, given["name"], (*path, "env", index, "valueFrom", field, "name"), keys)
    for index, source in enumerate(container.get("envFrom") or ()):
        for field, kind in (("configMapRef", CONFIG_MAP), ("secretRef", SECRET)):
            given = source.get(field) or {}
            if given.get("name") and not given.get("optional"):
                yield Reference(kind, given["name"], (*path, "envFrom", index, field, "name"))
