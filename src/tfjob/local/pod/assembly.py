"""From a pod to the spec of its supervisor: interpreters, arguments, environment variables, folders, limits."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from tfjob.api import quantity
from tfjob.api.objects import JOB_MOUNT_PATH, JOB_VOLUME, NEEDED_MODULE, Pod, own_claim_name
from tfjob.local.inputs import environment, gpus, images, keras_layer
from tfjob.local.inputs.references import Node, References
from tfjob.local.pod.network import LOOPBACK, Peer, rewrite_own_ports, rewrite_peers
from tfjob.local.sandbox import pod_spec
from tfjob.local.state.config import Config
from tfjob.local.volumes import job_storage, volumes
from tfjob.local.volumes.claims import Claims

DEFAULT_GRACE = 30.0


@dataclass(frozen=True)
class Machine:
    """What all pods of a run share on this machine."""

    config: Config
    level: pod_spec.Level
    limits: pod_spec.Limits
    project: Path
    source: str
    python: Path | None
    cpu: bool
    warm: bool | None
    volumes: Mapping[str, Path]
    claims: Claims
    references: References
    node: Node
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    passed: Mapping[str, str] = field(default_factory=dict)
    backoff: pod_spec.Backoff = field(default_factory=lambda: pod_spec.Backoff(initial=10.0, max=300.0, reset=600.0))


@dataclass(frozen=True)
class Assembled:
    """A pod ready to start; `notes` are messages for the user, such as a claim that was created.

    `spec` is stored on disk and contains nothing of a Secret, unless a folder is named after one (subPathExpr).
    `shown_env` is the declared environment with secret values hidden.
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
    """Resolve a pod completely. Raises Refusal if something is missing. With `dry_run` nothing is created on disk."""
    inits, mains = (pod.spec.get(group) or [] for group in ("initContainers", "containers"))
    containers = {container["name"]: container for container in (*inits, *mains)}
    module = pod.metadata.annotations.get(NEEDED_MODULE, "")
    runtimes = {
        name: images.resolve(one, machine.config, python=machine.python, project=machine.project, module=module)
        for name, one in containers.items()
    }
    variables = {
        name: _environment(one, pod, machine, runtimes[name], None if dry_run else folder / "bin")
        for name, one in containers.items()
    }
    context = volume_context(pod, machine, folder)
    resolved = volumes.resolve(
        context,
        {name: value.shown() if dry_run else value.declared for name, value in variables.items()},
        {name: runtime.folders for name, runtime in runtimes.items()},
    )
    fresh = [] if dry_run else volumes.prepare(resolved, context, now)
    for name in () if dry_run else variables:
        job_storage.make_folders(variables[name].declared, resolved.mounts[name])
    if not dry_run:
        job_storage.record_source(context, machine.source)
    # Users need no note about the claims that tfjob creates for the storage of jobs.
    own = {own_claim_name(owner.name) for owner in pod.metadata.owner_references}
    undeclared = [claim for claim in fresh if claim.name not in own]
    notes = [f"no manifest declares claim {claim.name}: created it at {claim.folder}" for claim in undeclared]
    texts = _Texts(pod, machine.level, network, resolved, notes)
    specs = {
        name: _container(one, machine, runtimes[name], variables[name].shown(), texts)
        for name, one in containers.items()
    }
    spec: pod_spec.PodSpec = {
        "schema": pod_spec.SCHEMA,
        "uid": pod.metadata.uid,
        "name": pod.metadata.name,
        "hostname": environment.hostname(pod),
        "level": machine.level,
        "ip": pod.status.pod_ip if machine.level != "ports" else "",
        "restartPolicy": pod.spec.get("restartPolicy") or "Always",
        "grace": grace_of(pod.spec),
        "lifeline": str(lifeline) if lifeline else None,
        "hosts": str(hosts),
        "backoff": machine.backoff,
        "log": {"maxBytes": machine.config.log_max_bytes, "files": machine.config.log_files},
        "tmpfs": resolved.tmpfs,
        "initContainers": [specs[container["name"]] for container in inits],
        "containers": [specs[container["name"]] for container in mains],
    }
    secrets: pod_spec.Secrets = {
        "env": {
            name: keras_layer.with_layer(texts.of_all(name, value.variables()), folder)
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
    for name, container in containers.items():
        whole = [texts.of(name, word) for word in images.argv(container, runtimes[name], variables[name].declared)]
        if whole != specs[name]["argv"]:
            secrets["argv"][name] = whole
    shown_env = {name: texts.of_all(name, value.shown()) for name, value in variables.items()}
    return Assembled(spec, secrets, shown_env, resolved.mounts, texts.notes)


def grace_of(pod: Mapping[str, Any]) -> float:
    seconds = pod.get("terminationGracePeriodSeconds")
    return DEFAULT_GRACE if seconds is None else float(seconds)


@dataclass
class _Texts:
    """Rewrites strings of a container for the level: replaces peers, ports and mount paths where needed."""

    pod: Pod
    level: pod_spec.Level
    network: Sequence[Peer]
    resolved: volumes.Volumes
    notes: list[str]

    def __post_init__(self) -> None:
        self.ports = next((peer.ports for peer in self.network if peer.name == self.pod.metadata.name), {})
        """The leased ports of the pod, by the port that each replaces."""

    def of_all(self, container: str, texts: Mapping[str, str]) -> dict[str, str]:
        return {key: self.of(container, text) for key, text in texts.items()}

    def of(self, container: str, text: str) -> str:
        return rewrite_own_ports(self._with_peers(container, text), self.pod, self.ports)

    def _with_peers(self, container: str, text: str) -> str:
        if self.level == "full":
            return rewrite_peers(text, self.network, names=True)
        mounts = self.resolved.mounts[container]
        mapping = {mount.target: str(mount.source) for mount in mounts}
        own = (mount.target for mount in mounts if mount.volume == JOB_VOLUME)
        ours = {target for target in own if target.startswith(JOB_MOUNT_PATH)}
        for path in volumes.mount_paths_in(text, mapping):
            if path in ours:
                continue  # not the user's: it comes from variables that tfjob sets
            note = f"{path} is {mapping[path]} on this machine, because level {self.level} cannot mount volumes"
            if note not in self.notes:
                self.notes.append(note)
        return rewrite_peers(volumes.rewrite_paths(text, mapping), self.network, names=False)


def volume_context(pod: Pod, machine: Machine, folder: Path) -> volumes.Context:
    """Return the context for the volumes of a pod; `folder` holds those that belong to the pod alone."""
    return volumes.Context(
        pod=pod,
        folder=folder,
        references=machine.references,
        node=machine.node,
        claims=machine.claims,
        mapping={**machine.config.volumes, **machine.volumes},
    )


def _environment(
    container: Mapping[str, Any], pod: Pod, machine: Machine, runtime: images.Runtime, links: Path | None
) -> environment.Environment:
    """Return the environment of a container; `links` is the folder for links to Python, None to create none."""
    linked = images.write_links(runtime, links) if links else None
    devices = {gpus.VISIBLE: gpus.NONE} if machine.cpu else gpus.variables(pod, container)
    return environment.resolve(
        container,
        pod,
        references=machine.references,
        node=machine.node,
        environ=machine.environ,
        passed=machine.passed,
        path_prefix=[*([linked] if linked else []), runtime.python.parent],
        image={**runtime.env, **_thread_limits(container, machine), **devices},
    )


def _thread_limits(container: Mapping[str, Any], machine: Machine) -> dict[str, str]:
    """Limit the threads of libraries if no cgroup can enforce the CPU limit."""
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
    variables: Mapping[str, str],
    texts: _Texts,
) -> pod_spec.ContainerSpec:
    name, limits = container["name"], _limits(container)
    spec: pod_spec.ContainerSpec = {
        "name": name,
        "image": container.get("image") or "",
        "argv": [texts.of(name, word) for word in images.argv(container, runtime, variables)],
        "cwd": texts.of(name, str(runtime.workdir)),
        "mounts": [
            {"source": str(mount.source), "target": mount.target, "readOnly": mount.read_only}
            for mount in texts.resolved.mounts[name]
        ],
        "memory": quantity.whole(limits.get("memory") or 0),
        "cpu": float(quantity.parse(limits.get("cpu") or 0)),
        "limits": machine.limits,
        "terminationMessagePath": container.get("terminationMessagePath") or "/dev/termination-log",
        "terminationMessagePolicy": container.get("terminationMessagePolicy") or "File",
    }
    if container.get("restartPolicy"):
        spec["restartPolicy"] = container["restartPolicy"]
    if any(field.endswith("Probe") for field in container):
        from tfjob.local.pod import probes  # few containers have any

        address = texts.pod.status.pod_ip or LOOPBACK
        found = probes.resolve(container, address=address, ports=texts.ports, text=lambda word: texts.of(name, word))
        if found:
            spec["probes"] = found
    return spec


def _limits(container: Mapping[str, Any]) -> Mapping[str, Any]:
    return (container.get("resources") or {}).get("limits") or {}
