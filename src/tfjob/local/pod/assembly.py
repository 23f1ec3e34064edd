"""From a pod to what its supervisor is told: interpreters, words, variables, folders, limits."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from tfjob.api import quantity
from tfjob.api.objects import NEEDED_MODULE, Pod
from tfjob.local.inputs import environment, gpus, images
from tfjob.local.inputs.references import Node, References
from tfjob.local.pod import probes
from tfjob.local.pod.network import LOOPBACK, Peer, rewrite_own_ports, rewrite_peers
from tfjob.local.sandbox import pod_spec
from tfjob.local.state.config import Config
from tfjob.local.volumes import job_storage, volumes
from tfjob.local.volumes.claims import Claims
from tfjob.plan.build.job_storage import MOUNT_PATH, VOLUME, claim_name

DEFAULT_GRACE = 30.0


@dataclass(frozen=True)
class Machine:
    """What all pods of a run share on this machine."""

    config: Config
    level: pod_spec.Level
    limits: Literal["cgroup", "poll", "off"]
    project: Path
    python: Path | None
    cpu: bool
    warm: bool | None
    volumes: Mapping[str, Path]
    claims: Claims
    references: References
    node: Node
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    backoff: pod_spec.Backoff = field(default_factory=lambda: pod_spec.Backoff(initial=10.0, max=300.0, reset=600.0))


@dataclass(frozen=True)
class Assembled:
    """A pod ready to be launched; `notes` are what its user should know, such as a claim made just now.

    `spec` is kept on disk and holds nothing of a Secret, unless a folder is called by one (subPathExpr); `shown_env` is
    what the manifest declares, without it too.
    """

    spec: pod_spec.PodSpec
    secrets: pod_spec.Secrets
    shown_env: Mapping[str, Mapping[str, str]]
    mounts: Mapping[str, Sequence[volumes.Mount]]
    notes: Sequence[str]


def assemble(
    pod: Pod,
    folder: Path,
    machine: Machine,
    network: Sequence[Peer],
    *,
    hosts: Path,
    lifeline: Path | None,
    now: datetime,
    dry_run: bool = False,
) -> Assembled:
    """Resolves a pod completely; raises Refusal for what is missing. With `dry_run` nothing is made on disk."""
    containers = [*(pod.spec.get("initContainers") or []), *(pod.spec.get("containers") or [])]
    runtimes = {
        container["name"]: images.resolve(
            container,
            machine.config,
            python=machine.python,
            project=machine.project,
            module=pod.metadata.annotations.get(NEEDED_MODULE, ""),
        )
        for container in containers
    }
    variables = {
        container["name"]: _environment(container, pod, machine, runtimes[container["name"]], folder, dry_run)
        for container in containers
    }
    context = volume_context(pod, machine, folder)
    resolved = volumes.resolve(
        context,
        {name: _shown(value) if dry_run else value.declared for name, value in variables.items()},
        {name: runtime.folders for name, runtime in runtimes.items()},
    )
    fresh = [] if dry_run else volumes.prepare(resolved, context, now)
    for name in () if dry_run else variables:
        job_storage.make_folders(variables[name].declared, resolved.mounts[name])
    asked = [claim for claim in fresh if claim.name not in _own_claims(pod)]
    notes = [f"no manifest declares claim {claim.name}: created it at {claim.folder}" for claim in asked]
    texts = _Texts(pod, machine.level, network, resolved, notes)
    specs = {
        container["name"]: _container(container, machine, runtimes[container["name"]], variables, resolved, texts)
        for container in containers
    }
    for container in containers:
        if found := _probes(container, pod, texts):
            specs[container["name"]]["probes"] = found
    spec: pod_spec.PodSpec = {
        "schema": pod_spec.SCHEMA,
        "uid": pod.metadata.uid,
        "name": pod.metadata.name,
        "namespace": pod.metadata.namespace,
        "hostname": environment.hostname(pod),
        "level": machine.level,
        "ip": pod.status.pod_ip if machine.level != "ports" else "",
        "restartPolicy": pod.spec.get("restartPolicy") or "Always",
        "grace": grace_of(pod),
        "lifeline": str(lifeline) if lifeline else None,
        "hosts": str(hosts),
        "backoff": machine.backoff,
        "log": {"maxBytes": machine.config.log_max_bytes, "files": machine.config.log_files},
        "tmpfs": [
            {
                "name": tmpfs.name,
                "path": str(tmpfs.path),
                "size": tmpfs.size,
                "secret": tmpfs.secret,
                "folders": list(tmpfs.folders),
            }
            for tmpfs in resolved.tmpfs
        ],
        "initContainers": [specs[container["name"]] for container in pod.spec.get("initContainers") or []],
        "containers": [specs[container["name"]] for container in pod.spec.get("containers") or []],
    }
    secrets: pod_spec.Secrets = {
        "env": {
            name: {key: texts.of(name, text) for key, text in value.variables().items()}
            for name, value in variables.items()
        },
        "files": {
            volume: {
                path: {"data": base64.b64encode(file.data).decode(), "mode": file.mode} for path, file in files.items()
            }
            for volume, files in resolved.secret_files.items()
        },
        "argv": {},
    }
    shown_env = {
        name: {key: texts.of(name, text) for key, text in _shown(value).items()} for name, value in variables.items()
    }
    for container in containers:
        name = container["name"]
        words = images.argv(container, runtimes[name], variables[name].declared)
        whole = [texts.of(name, word) for word in words]
        if whole != specs[name]["argv"]:
            secrets["argv"][name] = whole
    return Assembled(spec, secrets, shown_env, resolved.mounts, texts.notes)


def _own_claims(pod: Pod) -> set[str]:
    """The claims that nobody asked for, so that nobody needs to be told of them."""
    return {claim_name(owner.name) for owner in pod.metadata.owner_references}


def _shown(variables: environment.Environment) -> dict[str, str]:
    shown = variables.shown()
    return {name: shown[name] for name in variables.declared}


def grace_of(pod: Pod) -> float:
    seconds = pod.spec.get("terminationGracePeriodSeconds")
    return DEFAULT_GRACE if seconds is None else float(seconds)


class _Texts:
    """Texts of a container as they must read at this level: peers and mount paths replaced where need be."""

    def __init__(
        self, pod: Pod, level: pod_spec.Level, network: Sequence[Peer], resolved: volumes.Volumes, notes: list[str]
    ) -> None:
        self.ports = next((peer.ports for peer in network if peer.name == pod.metadata.name), {})
        """The ports that the pod has in place of others."""
        self._pod = pod
        self._level = level
        self._network = network
        self._resolved = resolved
        self.notes = notes

    def of(self, container: str, text: str) -> str:
        return rewrite_own_ports(self._with_peers(container, text), self._pod, self.ports)

    def _with_peers(self, container: str, text: str) -> str:
        if self._level == "full":
            return rewrite_peers(text, self._network, names=True)
        mapping = self._resolved.rewrites(container)
        own = (mount for mount in self._resolved.mounts[container] if mount.volume == VOLUME)
        ours = {mount.target for mount in own if mount.target.startswith(MOUNT_PATH)}
        for path in volumes.rewrite_all_paths([text], mapping):
            if path in ours:
                continue  # nobody wrote it: it comes from our own variables
            note = f"{path} is {mapping[path]} on this machine, because level {self._level} cannot mount volumes"
            if note not in self.notes:
                self.notes.append(note)
        return rewrite_peers(volumes.rewrite_paths(text, mapping), self._network, names=False)


def volume_context(pod: Pod, machine: Machine, folder: Path) -> volumes.Context:
    """What the volumes of a pod are resolved by; `folder` is for those that only it has."""
    return volumes.Context(
        pod=pod,
        folder=folder,
        references=machine.references,
        node=machine.node,
        claims=machine.claims,
        mapping={**machine.config.volumes, **machine.volumes},
    )


def _environment(
    container: Mapping[str, Any],
    pod: Pod,
    machine: Machine,
    runtime: images.Runtime,
    folder: Path,
    dry_run: bool,
) -> environment.Environment:
    links = None if dry_run else images.write_links(runtime, folder / "bin")
    return environment.resolve(
        container,
        pod,
        references=machine.references,
        node=machine.node,
        environ=machine.environ,
        path_prefix=[*([links] if links else []), *runtime.path_prefix],
        image={**runtime.env, **_thread_limits(container, machine), **_devices(container, pod, machine)},
    )


def _devices(container: Mapping[str, Any], pod: Pod, machine: Machine) -> dict[str, str]:
    return {gpus.VISIBLE: gpus.NONE} if machine.cpu else gpus.variables(pod, container)


def _thread_limits(container: Mapping[str, Any], machine: Machine) -> dict[str, str]:
    """Where no cgroup can hold a CPU limit, the libraries are at least told how many threads to start."""
    cpu = float(quantity.parse(_limits(container).get("cpu") or 0))
    if not cpu or machine.limits != "poll":
        return {}
    threads = str(max(1, int(cpu)))
    names = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
    return dict.fromkeys(names, threads)


def _container(
    container: Mapping[str, Any],
    machine: Machine,
    runtime: images.Runtime,
    variables: Mapping[str, environment.Environment],
    resolved: volumes.Volumes,
    texts: _Texts,
) -> pod_spec.ContainerSpec:
    name = container["name"]
    limits = _limits(container)
    spec: pod_spec.ContainerSpec = {
        "name": name,
        "argv": [texts.of(name, word) for word in images.argv(container, runtime, _shown(variables[name]))],
        "cwd": texts.of(name, str(runtime.workdir)),
        "mounts": [
            {"source": str(mount.source), "target": mount.target, "readOnly": mount.read_only}
            for mount in resolved.mounts[name]
        ],
        "memory": quantity.whole(limits.get("memory") or 0),
        "cpu": float(quantity.parse(limits.get("cpu") or 0)),
        "limits": machine.limits,
        "terminationMessagePath": container.get("terminationMessagePath") or "/dev/termination-log",
        "terminationMessagePolicy": container.get("terminationMessagePolicy") or "File",
    }
    if container.get("restartPolicy"):
        spec["restartPolicy"] = container["restartPolicy"]
    return spec


def _probes(container: Mapping[str, Any], pod: Pod, texts: _Texts) -> dict[pod_spec.ProbeKind, pod_spec.Probe]:
    """The probes of a container, at the address and the ports that its pod has on this machine."""
    return probes.resolve(
        container,
        address=pod.status.pod_ip or LOOPBACK,
        ports=texts.ports,
        text=lambda word: texts.of(container["name"], word),
    )


def _limits(container: Mapping[str, Any]) -> Mapping[str, Any]:
    return (container.get("resources") or {}).get("limits") or {}
