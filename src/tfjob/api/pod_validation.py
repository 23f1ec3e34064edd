"""The rules of API servers and kubelets for a pod template, and the objects that a pod refers to by name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from tfjob.api import quantity as quantities
from tfjob.api.image_reference import image_fault
from tfjob.api.problems import Path, Problem, path_text, problem_at
from tfjob.api.suggest import did_you_mean, one_of

POD_RESTART_POLICIES = ("Always", "OnFailure", "Never")
DNS_POLICIES = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
PROTOCOLS = ("TCP", "UDP", "SCTP")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_PORT_NAME = re.compile(r"(?=.*[a-z])[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_NAME_RULE = "use lowercase letters, digits and '-', at most 63 characters"
CONFIG_MAP, SECRET, CLAIM = "ConfigMap", "Secret", "PersistentVolumeClaim"
_SOURCES = {
    **dict.fromkeys(("configMap", "configMapKeyRef", "configMapRef"), CONFIG_MAP),
    **dict.fromkeys(("secret", "secretKeyRef", "secretRef"), SECRET),
}
"""The fields of volumes and environment variables that name an object, and the kind of the object."""


def pod_problems(pod: Mapping[str, Any], path: Path, brought: Iterable[str] = ()) -> Iterator[Problem]:
    """Yield the problems of the pod spec at `path`; the operator adds the volumes `brought`."""
    volumes = pod.get("volumes", [])
    yield from _nul_problems(pod, path)
    yield from one_of_problem(pod.get("restartPolicy"), POD_RESTART_POLICIES, (*path, "restartPolicy"))
    yield from one_of_problem(pod.get("dnsPolicy") or None, DNS_POLICIES, (*path, "dnsPolicy"))
    if pod.get("dnsPolicy") == "None" and not (pod.get("dnsConfig") or {}).get("nameservers"):
        message = "None needs at least one DNS server"
        yield problem_at((*path, "dnsPolicy"), message, "add it to dnsConfig.nameservers, or remove dnsPolicy")
    yield from at_least(pod, "terminationGracePeriodSeconds", 0, path)
    yield from at_least(pod, "activeDeadlineSeconds", 1, path)
    yield from _volume_problems(volumes, (*path, "volumes"))
    mountable = [*volumes, *({"name": name} for name in brought)]
    names: dict[str, str] = {}
    for group in ("containers", "initContainers"):
        for index, container in enumerate(pod.get(group, [])):
            where = (*path, group, index)
            yield from _container_problems(container, where)
            yield from mount_problems(container.get("volumeMounts", []), mountable, (*where, "volumeMounts"))
            yield from _twice(container.get("name"), names, (*where, "name"), "a container")


def mount_problems(mounts: Iterable[Mapping[str, Any]], volumes: Any, path: Path) -> Iterator[Problem]:
    known = [volume.get("name", "") for volume in volumes]
    targets: dict[str, str] = {}
    for index, mount in enumerate(mounts):
        where = (*path, index)
        name, target = mount.get("name"), mount.get("mountPath")
        if name and name not in known:
            hint = did_you_mean(name, known) or "add it to volumes"
            yield problem_at((*where, "name"), f"there is no volume '{name}'", hint)
        if target is not None and not target.startswith("/"):
            yield problem_at((*where, "mountPath"), f"must be an absolute path, not {target!r}")
        if ".." in str(mount.get("subPath", "")).split("/"):
            yield problem_at((*where, "subPath"), "must not contain '..'")
        yield from _twice(target, targets, (*where, "mountPath"), "a mount at")


def _nul_problems(pod: Mapping[str, Any], path: Path) -> Iterator[Problem]:
    """Yield a problem for each string with a NUL character, where the system would cut it off."""
    left: list[tuple[Path, Any]] = [(path, pod)]
    while left:
        where, value = left.pop()
        if isinstance(value, str):
            if "\0" in value:
                hint = "paths, environment variables and arguments cannot contain it"
                yield problem_at(where, "contains a NUL character", hint)
        elif isinstance(value, Mapping):
            left += [((*where, key), inner) for key, inner in value.items()]
        elif isinstance(value, list):
            left += [((*where, index), inner) for index, inner in enumerate(value)]


def image_problem(image: str | None, path: Path) -> Iterator[Problem]:
    if image and any(fault := image_fault(image)):
        yield problem_at(path, *fault)


def one_of_problem(value: Any, known: tuple[str, ...], path: Path) -> Iterator[Problem]:
    if value is not None and value not in known:
        message = f"must be {one_of(word or 'empty' for word in known)}, not {value!r}"
        yield problem_at(path, message, did_you_mean(str(value), filter(None, known)))


def at_least(values: Mapping[str, Any], name: str, least: int, path: Path) -> Iterator[Problem]:
    if values.get(name) is not None and values[name] < least:
        yield problem_at((*path, name), f"must be {least} or more, not {values[name]}")


def _container_problems(container: Mapping[str, Any], path: Path) -> Iterator[Problem]:
    name, image = container.get("name"), container.get("image")
    if name is not None and not (_LABEL.fullmatch(name) and len(name) <= 63):
        yield problem_at((*path, "name"), f"{name!r} is not a valid container name", _NAME_RULE)
    if not image:
        yield problem_at((*path, "image"), "is missing", "every container needs an image")
    yield from image_problem(image, (*path, "image"))
    yield from one_of_problem(container.get("imagePullPolicy"), PULL_POLICIES, (*path, "imagePullPolicy"))
    if container.get("workingDir") and not container["workingDir"].startswith("/"):
        yield problem_at((*path, "workingDir"), f"must be an absolute path, not {container['workingDir']!r}")
    yield from _env_problems(container.get("env", []), (*path, "env"))
    yield from _port_problems(container.get("ports", []), (*path, "ports"))
    yield from resource_problems(container.get("resources", {}), (*path, "resources"))


def _env_problems(env: Iterable[Mapping[str, Any]], path: Path) -> Iterator[Problem]:
    for index, variable in enumerate(env):
        name = variable.get("name")
        if name is not None and (not name or "=" in name):
            yield problem_at((*path, index, "name"), f"{name!r} is not a valid name of an environment variable")
        if "value" in variable and "valueFrom" in variable and variable["value"]:
            yield problem_at((*path, index, "valueFrom"), "cannot be used together with value", "remove one of them")
        sources = variable.get("valueFrom")
        if sources is not None and len(sources) != 1:
            known = "configMapKeyRef, secretKeyRef, fieldRef or resourceFieldRef"
            yield problem_at((*path, index, "valueFrom"), f"must contain exactly one of {known}")


def _port_problems(ports: Iterable[Mapping[str, Any]], path: Path) -> Iterator[Problem]:
    names: dict[str, str] = {}
    for index, port in enumerate(ports):
        where = (*path, index)
        for field in ("containerPort", "hostPort"):
            number = port.get(field)
            if number is not None and not 1 <= number <= 65535:
                yield problem_at((*where, field), f"must be between 1 and 65535, not {number}")
        name = port.get("name")
        if name is not None and not (_PORT_NAME.fullmatch(name) and len(name) <= 15 and "--" not in name):
            hint = "use lowercase letters, digits and '-', with at least one letter, at most 15 characters"
            yield problem_at((*where, "name"), f"{name!r} is not a valid port name", hint)
        yield from one_of_problem(port.get("protocol"), PROTOCOLS, (*where, "protocol"))
        yield from _twice(name, names, (*where, "name"), "a port")


def resource_problems(resources: Mapping[str, Any], path: Path) -> Iterator[Problem]:
    """Return the problems of the limits and requests of a container or a claim."""
    amounts: dict[tuple[str, str], Fraction] = {}
    for group in ("limits", "requests"):
        for name, quantity in resources.get(group, {}).items():
            where = (*path, group, name)
            try:
                amounts[group, name] = quantities.parse(quantity)
            except ValueError as error:
                yield problem_at(where, str(error))
                continue
            if amounts[group, name] < 0:
                yield problem_at(where, f"must be 0 or more, not {quantity}")
            if name == "memory" and 0 < amounts[group, name] < 1:
                yield problem_at(
                    where, f"is {quantity}, which is less than one byte", "m means thousandths, Mi mebibytes"
                )
    for (group, name), amount in amounts.items():
        if group == "requests" and amount > amounts.get(("limits", name), amount):
            request, limit = resources["requests"][name], resources["limits"][name]
            message = f"the request of {request} exceeds the limit of {limit}"
            yield problem_at((*path, "requests", name), message, "raise the limit or lower the request")


def _volume_problems(volumes: Iterable[Mapping[str, Any]], path: Path) -> Iterator[Problem]:
    names: dict[str, str] = {}
    for index, volume in enumerate(volumes):
        where = (*path, index)
        name = volume.get("name")
        if name is not None and not (_LABEL.fullmatch(name) and len(name) <= 63):
            yield problem_at((*where, "name"), f"{name!r} is not a valid volume name", _NAME_RULE)
        sources = [key for key in volume if key != "name"]
        if len(sources) > 1:
            message = f"a volume can have only one source, but this one has {', '.join(sources)}"
            yield problem_at(where, message, "remove all but one")
        yield from _twice(name, names, (*where, "name"), "a volume")


def _twice(name: Any, seen: dict[str, str], path: Path, what: str) -> Iterator[Problem]:
    if name in seen:
        yield problem_at(path, f"there is already {what} '{name}' ({seen[name]})", "change one of them")
    elif name:
        seen[name] = path_text(path[-3:-1])


class Reference(NamedTuple):
    """An object that must exist, with these keys, before a pod can start."""

    kind: str
    name: str
    path: Path
    keys: tuple[str, ...] = ()


def references(pod: Mapping[str, Any]) -> Iterator[Reference]:
    """Yield the ConfigMaps, Secrets and claims that a pod requires, with paths in the pod's spec."""
    for index, volume in enumerate(pod.get("volumes") or ()):
        path: Path = ("volumes", index)
        claim = volume.get("persistentVolumeClaim") or {}
        if claim.get("claimName"):
            yield Reference(CLAIM, claim["claimName"], (*path, "persistentVolumeClaim", "claimName"))
        yield from _of_source(volume, path)
        for number, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            yield from _of_source(source, (*path, "projected", "sources", number))
    for group in ("initContainers", "containers"):
        for index, container in enumerate(pod.get(group) or ()):
            for number, variable in enumerate(container.get("env") or ()):
                yield from _of_source(variable.get("valueFrom") or {}, (group, index, "env", number, "valueFrom"))
            for number, source in enumerate(container.get("envFrom") or ()):
                yield from _of_source(source, (group, index, "envFrom", number))


def _of_source(source: Mapping[str, Any], path: Path) -> Iterator[Reference]:
    for field, kind in _SOURCES.items():
        given = source.get(field) or {}
        named = "secretName" if given.get("secretName") else "name"
        if given.get(named) and not given.get("optional"):
            keys = tuple(item["key"] for item in (*(given.get("items") or ()), given) if item.get("key"))
            yield Reference(kind, given[named], (*path, field, named), keys)
