"""What a job asks for that this machine does not support, or handles differently from a cluster.

Three rules decide about a field:
- A field that grants or changes something that this machine cannot provide is an error (GPUs, host namespaces, another
  user, hooks, cloud volumes), because the program expects it.
- A field that chooses among machines, or limits many of them, has no effect on a single machine: it is a warning.
- A field that only takes rights away (dropped capabilities), or observes the program in a way that this machine cannot
  (a gRPC probe), is a warning too, because it does not change what a training computes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tfjob.api import quantity
from tfjob.api.defaults import server_container, serves_by_default
from tfjob.api.objects import JOB_VOLUME, ObjectMeta, Pod
from tfjob.api.problems import Problem, path_text
from tfjob.api.suggest import nearest
from tfjob.api.types import MOST_REPLICAS, PARALLELISM, TFJob
from tfjob.local.inputs import gpus, images
from tfjob.local.inputs.references import Node, References
from tfjob.local.pod import probes
from tfjob.local.pod.network import told_ports
from tfjob.local.run import tensorboard
from tfjob.local.state import addresses
from tfjob.local.state.config import Config
from tfjob.local.state.errors import Refusal
from tfjob.local.volumes import claims, volumes
from tfjob.plan.build.pods import template_of

At = tuple[str | int, ...]

OUTSIDE_SERVICES = ("LoadBalancer", "NodePort", "ExternalName")

UNSUPPORTED = "not supported on this machine"
UNSUPPORTED_IN_POD = {
    "hostNetwork": "each replica gets its own address or ports",
    "hostPID": "a replica cannot see the host's processes",
    "hostIPC": "a replica cannot share the host's IPC namespace",
    "shareProcessNamespace": "the containers of a replica do not share a process namespace",
    "hostAliases": "no names can be added to a replica's hosts file",
    "dnsConfig": "replicas resolve names the way this machine does",
    "subdomain": "a replica has only the names of its Service",
    "setHostnameAsFQDN": "a replica's host name is the name of its pod",
    "activeDeadlineSeconds": "set spec.runPolicy.activeDeadlineSeconds of the job instead",
    "schedulingGates": "no scheduler opens the gates",
    "resourceClaims": "devices cannot be claimed",
}
UNSUPPORTED_IN_CONTAINER = {
    "lifecycle.postStart": "hooks do not run, do the work in the command",
    "lifecycle.preStop": "hooks do not run, do the work in the command",
    "volumeDevices": "volumes are folders",
    "restartPolicyRules": "only the restart policy itself is followed",
}
UNSUPPORTED_IN_SECURITY = {
    "privileged": "replicas have your rights and no others",
    "sysctls": "replicas use the kernel settings of this machine",
}
WITHOUT_EFFECT_IN_POD = (
    "nodeSelector",
    "nodeName",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "schedulerName",
    "priorityClassName",
    "priority",
    "preemptionPolicy",
    "runtimeClassName",
    "overhead",
    "imagePullSecrets",
    "readinessGates",
)
OTHER_GPUS = ("amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe")
ON_CPU = "train on the CPU with tfjob run --cpu"
ALL_SEE_ALL = "set gpu = true under [local] in tfjob.toml to let every replica see all GPUs"
REMOVE = "remove the field to run on this machine"
_NAME_PORT = "name the port in the command or in an environment variable, so that each pod gets its own port"
NOT_ENFORCED = (
    "capabilities.drop",
    "seccompProfile",
    "appArmorProfile",
    "seLinuxOptions",
    "readOnlyRootFilesystem",
    "fsGroup",
    "supplementalGroups",
)


@dataclass(frozen=True, kw_only=True)
class Host:
    """What a job is checked against; with `cpu`, no replica gets any of the `gpus`, and an unknown `level` is empty."""

    config: Config
    project: Path
    node: Node
    python: Path | None = None
    cpu: bool = False
    gpus: Sequence[str] = ()
    volumes: Mapping[str, Path] = field(default_factory=dict)
    level: str = ""
    uid: int = field(default_factory=os.getuid)
    gid: int = field(default_factory=os.getgid)


def problems(job: TFJob, host: Host) -> list[Problem]:
    """Return what this machine does not support in a job with defaults (errors) or handles differently (warnings)."""
    found = [*_job_problems(job, host)]
    for name, replica in job.spec.tf_replica_specs.items():
        if replica.replicas == 0:
            continue
        if serves_by_default(job, name, replica):
            found += _default_server_problems(name, host)
        if replica.template is not None:
            at: At = ("spec", "tfReplicaSpecs", name, "template", "spec")
            # The plan adds the command of the default parameter server when it creates the pod.
            is_written = server_container(replica.template) is not None
            template = template_of(job, name) if is_written else replica.template
            found += _pod_problems(template.get("spec") or {}, at, host, replica.replicas or 1)
    return [*found, *_fit_problems(job, host)]


def object_problems(document: Mapping[str, Any], host: Host) -> list[Problem]:
    """Return the problems of another document of the manifest; paths are relative to that document."""
    if document.get("kind") == "Deployment":
        spec = document["spec"]
        at = ("spec", "template", "spec")
        return [*_pod_problems(spec["template"]["spec"], at, host, spec.get("replicas", 1))]
    if document.get("kind") == "Service":
        return [*_service_problems(document.get("spec") or {})]
    if document.get("kind") == "PersistentVolumeClaim":
        return [*_refusals(("spec",), claims.check, document)]
    return []


def unknown_volumes(
    jobs: Sequence[TFJob], deployments: Sequence[Mapping[str, Any]], mapping: Mapping[str, Path]
) -> list[Problem]:
    """Return a problem for every `--volume` name that no job or Deployment has, because it is probably misspelt."""
    replicas = (replica for job in jobs for replica in job.spec.tf_replica_specs.values())
    templates = [replica.template or {} for replica in replicas] + [one["spec"]["template"] for one in deployments]
    groups = [(template.get("spec") or {}).get("volumes") or [] for template in templates]
    groups += [job.spec.tensor_board.volumes for job in jobs if job.spec.tensor_board is not None]
    known = {volume.get("name", "") for volumes in groups for volume in volumes}
    of_job = f"use one of its volumes: {_words(known)}" if known else "it has no volumes"
    hint = f"{of_job}; --volume {JOB_VOLUME}=FOLDER chooses the folder for checkpoints and output"
    return [
        Problem("", f"--volume {name}: the job has no volume of that name", hint)
        for name in mapping
        if name not in {JOB_VOLUME, *known}
    ]


def _job_problems(job: TFJob, host: Host) -> Iterator[Problem]:
    policy = job.spec.run_policy
    if policy.managed_by not in (None, "", "kubeflow.org/training-operator"):
        message = f"jobs managed by {policy.managed_by} cannot run on this machine"
        yield _refused(("spec", "runPolicy", "managedBy"), message, "remove it")
    if policy.scheduling_policy is not None:
        yield _warning(("spec", "runPolicy", "schedulingPolicy"), "has no effect on a single machine")
    board = job.spec.tensor_board
    if board is not None:
        try:
            images.interpreter_with(tensorboard.MODULE, images.chosen_interpreter(host.python, host.project))
        except Refusal as refusal:
            message = f"TensorBoard will not start: {refusal.message}"
            yield _warning(("spec", "tensorBoard"), message, _as_hint(refusal.hint))
        if board.service_type in OUTSIDE_SERVICES:
            at: At = ("spec", "tensorBoard", "serviceType")
            yield _warning(at, f"{board.service_type} needs a cluster: TensorBoard will answer on this machine only")
        yield from _volume_problems(board.volumes, ("spec", "tensorBoard", "volumes"), host)


def _default_server_problems(name: str, host: Host) -> Iterator[Problem]:
    """Check that the interpreter has TensorFlow, because the default parameter server is a TensorFlow server."""
    at: At = ("spec", "tfReplicaSpecs", name)
    try:
        python = images.chosen_interpreter(host.python, host.project)
    except Refusal as refusal:
        yield _refused(at, refusal.message, refusal.hint)
        return
    if not images.has_module(python, "tensorflow"):
        hint = f"install it: {python} -m pip install 'tfjob[tensorflow]', or choose another interpreter with --python"
        yield _refused(at, f"the default parameter server needs TensorFlow, which {python} does not have", hint)


def _pod_problems(pod: Mapping[str, Any], at: At, host: Host, replicas: int) -> Iterator[Problem]:
    yield from _unsupported(pod, UNSUPPORTED_IN_POD, at)
    yield from _without_effect(pod, WITHOUT_EFFECT_IN_POD, at, "on a single machine")
    if (pod.get("os") or {}).get("name", "linux") != "linux":
        yield _refused((*at, "os"), "only Linux pods can run on this machine")
    if (pod.get("serviceAccountName") or "default") != "default":
        yield _warning((*at, "serviceAccountName"), "no token is mounted, because this machine has no API server")
    if pod.get("resources"):
        message = "limits of a whole pod are not enforced on this machine"
        yield _warning((*at, "resources"), message, "set limits on its containers")
    yield from _security_problems(pod.get("securityContext") or {}, (*at, "securityContext"), host)
    yield from _volume_problems(pod.get("volumes") or [], (*at, "volumes"), host)
    for group in ("initContainers", "containers"):
        for index, container in enumerate(pod.get(group) or []):
            yield from _container_problems(container, (*at, group, index), host)
            yield from _mount_problems(container, (*at, group, index))
    yield from _fixed_port_problems(pod, at, host, replicas)


def _container_problems(container: Mapping[str, Any], at: At, host: Host) -> Iterator[Problem]:
    try:
        runtime = images.resolve(container, host.config, python=host.python, project=host.project)
    except Refusal as refusal:
        yield _refused((*at, "image"), refusal.message, _as_hint(refusal.hint))
    else:
        yield from () if runtime.server else _absent_program(container, runtime, at)
    yield from _resource_problems(container.get("resources") or {}, (*at, "resources"), host)
    yield from _security_problems(container.get("securityContext") or {}, (*at, "securityContext"), host)
    yield from _port_problems(container.get("ports") or [], (*at, "ports"), host)
    yield from _probe_problems(container, at)
    yield from _unsupported(container, UNSUPPORTED_IN_CONTAINER, at)
    for name in ("stdin", "tty"):
        if container.get(name):
            yield _warning((*at, name), "replicas on this machine have no terminal and an empty standard input")


def _absent_program(container: Mapping[str, Any], runtime: images.Runtime, at: At) -> Iterator[Problem]:
    """Warn about a program at an absolute path, or a Python script, that neither this machine nor a volume has."""
    command = container.get("command") or []
    held = [*runtime.folders, *(mount.get("mountPath") or "/" for mount in container.get("volumeMounts") or [])]
    is_python = bool(command) and Path(command[0]).name.startswith("python")
    script = next((number for number, word in enumerate(command) if number and not word.startswith("-")), 0)
    for number in sorted({0, script}) if is_python else range(len(command[:1])):
        file = Path(command[number])
        if file.is_absolute() and not file.exists() and not any(file.is_relative_to(folder) for folder in held):
            message = f"tfjob does not run images on this machine, which has no {file}"
            hint = (
                f"choose a folder of this machine that contains {file.name}, in the file tfjob.toml of your project:\n"
                f'[images."{container.get("image")}"]\nfolders = {{ "{file.parent}" = "FOLDER" }}'
            )
            is_mappable = file.parent != Path("/")
            yield _warning((*at, "command", number), message, hint if is_mappable else "change the command")
            return
        if number and file.suffix == ".py" and "$" not in command[number] and runtime.workdir.is_dir():
            file = runtime.workdir / file
            if not file.exists() and not any(file.is_relative_to(folder) for folder in held):
                near = nearest(file.name, (one.name for one in file.parent.glob("*.py")))
                hint = f"did you mean {near}?" if near else "correct its name"
                yield _warning((*at, "command", number), f"{file.parent} has no file {file.name}", hint)


def _mount_problems(container: Mapping[str, Any], at: At) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    for index, mount in enumerate(container.get("volumeMounts") or []):
        target = os.path.normpath(mount.get("mountPath") or "")
        if seen.setdefault(target, index) != index:
            message = f"volumeMounts[{seen[target]}] is mounted at the same path"
            yield _refused((*at, "volumeMounts", index, "mountPath"), message, "change one of them")
        if (mount.get("mountPropagation") or "None") != "None":
            yield _refused((*at, "volumeMounts", index, "mountPropagation"), UNSUPPORTED, REMOVE)
        if target in ("/", "//"):
            message = "a volume cannot be mounted at the root"
            yield _refused((*at, "volumeMounts", index, "mountPath"), message, "choose a folder below /")
            return


def _probe_problems(container: Mapping[str, Any], at: At) -> Iterator[Problem]:
    is_sidecar = "initContainers" in at and container.get("restartPolicy") == "Always"
    for name, problem in probes.problems(container):
        if name == "startupProbe" and is_sidecar:
            yield _refused((*at, name), f"the next container would wait for this probe, which cannot run: {problem}")
        else:
            yield _warning((*at, name), f"this probe is ignored: {problem}")


def _security_problems(context: Mapping[str, Any], at: At, host: Host) -> Iterator[Problem]:
    for name, present in (("runAsUser", host.uid), ("runAsGroup", host.gid)):
        if context.get(name) is not None and context[name] != present:
            yield _refused((*at, name), f"replicas on this machine run as you ({name[5:].lower()} {present})", REMOVE)
    if context.get("runAsNonRoot") and host.uid == 0:
        yield _refused((*at, "runAsNonRoot"), "replicas run as you, and you are root", "run tfjob as an ordinary user")
    yield from _unsupported(context, UNSUPPORTED_IN_SECURITY, at)
    added = (context.get("capabilities") or {}).get("add")
    if added and host.uid != 0:
        message = f"replicas run as you, and an ordinary user cannot add capabilities ({_words(added)})"
        yield _refused((*at, "capabilities", "add"), message, REMOVE)
    if context.get("procMount") not in (None, "Default"):
        yield _refused((*at, "procMount"), UNSUPPORTED, REMOVE)
    yield from _without_effect(context, NOT_ENFORCED, at, "on this machine")


def _port_problems(ports: Sequence[Mapping[str, Any]], at: At, host: Host) -> Iterator[Problem]:
    for index, port in enumerate(ports):
        if port.get("hostPort"):
            yield _refused((*at, index, "hostPort"), f"{UNSUPPORTED}: a replica listens at its own address", REMOVE)
        number = port.get("containerPort")
        is_own = host.level in ("full", "addresses") and port.get("protocol", "TCP") == "TCP"
        if is_own and isinstance(number, int) and not addresses.is_free("127.77.255.254", number):
            # Only a warning: the replica gets another port, and its peers learn about it.
            message, hint = addresses.taken_port(number)
            yield _warning((*at, index, "containerPort"), message, _as_hint(hint))


def _fixed_port_problems(pod: Mapping[str, Any], at: At, host: Host, replicas: int) -> Iterator[Problem]:
    """Warn at level ports about a port that cannot be replaced and that another program or replica uses."""
    if host.level != "ports":
        return
    replaced = told_ports(Pod(spec=dict(pod)))
    for index, container in enumerate(pod.get("containers") or ()):
        for number, port in enumerate(container.get("ports") or ()):
            fixed = port["containerPort"]
            if fixed in replaced or port.get("protocol", "TCP") != "TCP":
                continue
            where = (*at, "containers", index, "ports", number, "containerPort")
            if not addresses.is_free(addresses.WILDCARD, fixed):
                yield _warning(where, f"another program has port {fixed} and would answer for this pod", _NAME_PORT)
            elif replicas > 1:
                yield _warning(where, f"all {replicas} replicas would use port {fixed} of this machine", _NAME_PORT)


def _volume_problems(wanted: Sequence[Mapping[str, Any]], at: At, host: Host) -> Iterator[Problem]:
    context = volumes.Context(
        pod=Pod(metadata=ObjectMeta(name="check", namespace="default")),
        folder=Path("/"),
        references=References(lambda name: None, lambda name: None),
        node=host.node,
        claims=claims.Claims(Path("/")),
        mapping={**host.config.volumes, **host.volumes},
    )
    for index, volume in enumerate(wanted):
        if volume.get("name"):
            yield from _refusals((*at, index), volumes.check, volume, context)
        empty = volume.get("emptyDir") or {}
        if empty.get("sizeLimit") and empty.get("medium") != "Memory":
            yield _warning((*at, index, "emptyDir", "sizeLimit"), "disk space limits are not enforced on this machine")


def _service_problems(spec: Mapping[str, Any]) -> Iterator[Problem]:
    if spec.get("type") in OUTSIDE_SERVICES:
        message = f"{spec['type']} Services need the network of a cluster"
        yield _refused(("spec", "type"), message, "use ClusterIP, or remove the field")
    if spec.get("clusterIP") == "None":
        message = "on this machine a headless Service has one address, which forwards to its ready pods in turn"
        yield _warning(("spec", "clusterIP"), message)
    for index, port in enumerate(spec.get("ports") or ()):
        if port.get("protocol", "TCP") != "TCP":
            yield _warning(("spec", "ports", index, "protocol"), "only TCP ports are forwarded on this machine")


def _refusals(at: At, check: Callable[..., object], *arguments: object) -> Iterator[Problem]:
    try:
        check(*arguments)
    except Refusal as refusal:
        yield _refused(at, refusal.message, _as_hint(refusal.hint))


# CPUs, memory and devices


def _resource_problems(resources: Mapping[str, Any], at: At, host: Host) -> Iterator[Problem]:
    if resources.get("claims"):
        yield _refused((*at, "claims"), f"{UNSUPPORTED}: devices cannot be claimed", REMOVE)
    groups = {name: group for group in ("requests", "limits") for name in resources.get(group) or {}}
    for name, group in groups.items():
        yield from _one_resource(name, resources[group][name], (*at, group, name), host)


def _one_resource(name: str, amount: str | float, at: At, host: Host) -> Iterator[Problem]:
    if name in ("cpu", "memory") or not quantity.amount_or_zero(amount):
        return
    if name == "ephemeral-storage":
        yield _warning(at, "disk space limits are not enforced on this machine")
    elif name in (*gpus.RESOURCES, *OTHER_GPUS):
        yield from _gpu(name, at, host)
    else:
        yield _refused(at, f"this machine has no resource '{name}'", REMOVE)


def _gpu(name: str, at: At, host: Host) -> Iterator[Problem]:
    if host.cpu:
        yield _warning(at, "no replica sees a GPU, because of --cpu")
    elif host.config.gpu:
        yield _warning(at, "every replica sees all GPUs of this machine, because the configuration sets gpu = true")
    elif name in OTHER_GPUS:
        message = "only NVIDIA GPUs can be assigned to replicas on this machine"
        yield _refused(at, message, f"{ON_CPU}, or {ALL_SEE_ALL}")
    elif not host.gpus:
        yield _refused(at, "this machine has no NVIDIA GPU that replicas could use", ON_CPU)


def _fit_problems(job: TFJob, host: Host) -> Iterator[Problem]:
    """Report requests that exceed this machine; replicas share its CPUs and memory, but not its GPUs."""
    for name, has in (("cpu", host.node.cpus), ("memory", host.node.memory)):
        asked = sum(
            _requested(replica.template or {}, name) * (replica.replicas or 0)
            for replica in job.spec.tf_replica_specs.values()
        )
        if has and asked > has:
            message = f"the replicas request {_shown(name, asked)} in total, but this machine has {_shown(name, has)}"
            yield _warning(("spec", "tfReplicaSpecs"), message, "all of them start, and share what there is")
    asked_for = gpus_asked_for(job)
    if asked_for > len(host.gpus) > 0 and not host.cpu and not host.config.gpu:
        message = f"the replicas request {asked_for} GPUs in total, but this machine has {len(host.gpus)}"
        yield _refused(("spec", "tfReplicaSpecs"), message, f"request fewer, or {ON_CPU}")


def gpus_asked_for(job: TFJob) -> int:
    parallelism = job.metadata.annotations.get(PARALLELISM, "")
    most = int(parallelism) if parallelism.isdecimal() else MOST_REPLICAS
    return sum(
        gpus.asked_by_pod((replica.template or {}).get("spec") or {}) * min(replica.replicas or 0, most)
        for replica in job.spec.tf_replica_specs.values()
    )


def _requested(template: Mapping[str, Any], name: str) -> float:
    containers = (template.get("spec") or {}).get("containers") or []
    resources = [container.get("resources") or {} for container in containers]
    requests = ({**(one.get("limits") or {}), **(one.get("requests") or {})} for one in resources)
    return float(sum(quantity.amount_or_zero(one.get(name, 0)) for one in requests))


def _shown(name: str, amount: float) -> str:
    return f"{amount / 1024**3:.1f} GiB of memory" if name == "memory" else f"{amount:g} CPUs"


# Problems


def _unsupported(value: Mapping[str, Any], fields: Mapping[str, str], at: At) -> Iterator[Problem]:
    for name, reason in fields.items():
        if _inner(value, name):
            yield _refused((*at, *name.split(".")), f"{UNSUPPORTED}: {reason}", REMOVE)


def _without_effect(value: Mapping[str, Any], fields: Iterable[str], at: At, where: str) -> Iterator[Problem]:
    found = [name for name in fields if _inner(value, name)]
    if len(found) == 1:
        yield _warning((*at, *found[0].split(".")), f"has no effect {where}")
    elif found:
        yield _warning(at, f"these fields have no effect {where}: {_words(found)}")


def _refused(at: At, message: str, hint: str = "") -> Problem:
    return Problem(path_text(at), message, hint)


def _warning(at: At, message: str, hint: str = "") -> Problem:
    return Problem(path_text(at), message, hint, warning=True)


def _as_hint(sentence: str) -> str:
    first = sentence[:1] if sentence[1:2].isupper() else sentence[:1].lower()
    return first + sentence[1:].removesuffix(".")


def _inner(value: Mapping[str, Any], path: str) -> Any:
    for part in path.split("."):
        value = (value or {}).get(part)  # type: ignore[assignment]
    return value


def _words(names: Iterable[str]) -> str:
    *most, last = sorted(names) or ["none"]
    return f"{', '.join(most)} and {last}" if most else last
