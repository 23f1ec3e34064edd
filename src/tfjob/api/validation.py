"""The rules that a job must keep; every fault is found in one pass.

They are those of training-operator v1.9's webhook and the ones that would otherwise show only later: names that are
too long, mounts of missing volumes, images that are none.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from msgspec import to_builtins

from tfjob.api.conversion import canonical_type
from tfjob.api.defaults import PS_VOLUME, server_container, serves_by_default
from tfjob.api.dialect import BATCH, origin
from tfjob.api.names import child_name, tensorboard_name
from tfjob.api.pod_validation import (
    POD_RESTART_POLICIES,
    at_least,
    image_problem,
    mount_problems,
    one_of_problem,
    pod_problems,
)
from tfjob.api.problems import Path, Problem, problem_at
from tfjob.api.suggest import did_you_mean
from tfjob.api.types import (
    CHIEF,
    CONTAINER_NAME,
    JOB_VOLUME,
    MASTER,
    MOST_REPLICAS,
    PS,
    PS_PORT,
    REPLICA_TYPES,
    RUNTIME_ID,
    WORKER,
    ReplicaSpec,
    TFJob,
)

RESTART_POLICIES = ("Always", "OnFailure", "Never", "ExitCode")
CLEAN_POD_POLICIES = ("All", "Running", "None")
SUCCESS_POLICIES = ("", "AllWorkers")
RESTART_SCOPES = ("Auto", "Task", "Gang")
MANAGERS = ("kubeflow.org/training-operator", "kueue.x-k8s.io/multikueue")
SERVICE_TYPES = ("", "ClusterIP", "NodePort", "LoadBalancer")
MAX_NAME = 63
KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
"""The label with which a job asks Kueue for its start."""

_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_DNS_1123 = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_REPLICAS: Path = ("spec", "tfReplicaSpecs")
_NAMED_BY_DOCUMENTS = (MASTER, WORKER)


def validate(job: TFJob) -> list[Problem]:
    """Return the problems of a job, with paths of the hub type; the job needs no defaults."""
    return [
        *_metadata_problems(job),
        *_replica_set_problems(job),
        *(found for name, spec in job.spec.tf_replica_specs.items() for found in _replica_problems(job, name, spec)),
        *_run_policy_problems(job),
        *_policy_problems(job),
        *_tensor_board_problems(job),
        *_chief_problems(job),
    ]


def _metadata_problems(job: TFJob) -> Iterator[Problem]:
    metadata = job.metadata
    if not metadata.name:
        yield Problem("metadata.name", "is missing", "give the job a name, or pass --name")
    else:
        yield from _name_problems(job)
        yield from _child_name_problems(job)
    if metadata.namespace and not (_DNS_1123.fullmatch(metadata.namespace) and len(metadata.namespace) <= 63):
        yield Problem("metadata.namespace", f"{metadata.namespace!r} is no namespace name")
    yield from _label_problems(metadata.labels, ("metadata", "labels"))
    runtime_id = metadata.annotations.get(RUNTIME_ID)
    if runtime_id is not None and not re.fullmatch(r"[0-9A-Za-z]{1,10}", runtime_id):
        where = ("metadata", "annotations", RUNTIME_ID)
        yield problem_at(where, f"{runtime_id!r} must be 1 to 10 letters and digits")
    port = metadata.annotations.get(PS_PORT)
    if port is not None and not (re.fullmatch(r"[0-9]{1,5}", port) and 1 <= int(port) <= 65535):
        yield problem_at(("metadata", "annotations", PS_PORT), f"must be between 1 and 65535, is {port}")


def _label_problems(labels: Mapping[str, Any], where: Path) -> Iterator[Problem]:
    for key, value in labels.items():
        path = (*where, key)
        if not _LABEL_KEY.fullmatch(key):
            yield problem_at(path, f"{key!r} is no label name")
        if not _LABEL_VALUE.fullmatch(str(value)):
            rule = "letters, digits, '-', '_' and '.', at most 63 characters"
            yield problem_at(path, f"{value!r} is no label value: {rule}", "use an annotation for free text")


def _name_problems(job: TFJob) -> Iterator[Problem]:
    name = job.metadata.name
    rule = _DNS_1123 if origin(job).api_version == BATCH else _DNS_1035
    if rule.fullmatch(name) and len(name) <= MAX_NAME:
        return
    if len(name) > MAX_NAME:
        yield Problem("metadata.name", f"is {len(name)} characters long, {MAX_NAME} are possible")
        return
    wanted = "lower-case letters, digits and '-', a letter first, no '-' at the end"
    suggestion = possible_name(name)
    hint = f"for example {suggestion}" if suggestion else ""
    yield Problem("metadata.name", f"{name!r} is no job name: {wanted}", hint)


def possible_name(name: str) -> str:
    """Return the job name nearest to a text; empty if none of its characters may be in one."""
    letters = "".join(part for part in unicodedata.normalize("NFKD", name) if not unicodedata.combining(part))
    plain = re.sub(r"[^a-z0-9]+", "-", letters.lower()).strip("-")
    return plain if _DNS_1035.fullmatch(plain) else f"job-{plain}" if plain else ""


def _child_name_problems(job: TFJob) -> Iterator[Problem]:
    """Check the longest name that a child would get: it is also a host name, which has at most 63 characters."""
    names = [
        child_name(job, canonical_type(replica_type), _count(spec) - 1)
        for replica_type, spec in job.spec.tf_replica_specs.items()
        if _count(spec) > 0
    ]
    if job.spec.tensor_board is not None:
        names.append(tensorboard_name(job))
    longest = max(names, key=len, default="")
    if len(longest) > MAX_NAME >= len(job.metadata.name):
        over = len(longest) - MAX_NAME
        message = f"{longest} would be {len(longest)} characters long, {MAX_NAME} are possible"
        hint = f"shorten the job's name by {over} to at most {len(job.metadata.name) - over} characters"
        yield Problem("metadata.name", message, hint)


def _replica_set_problems(job: TFJob) -> Iterator[Problem]:
    specs = job.spec.tf_replica_specs
    if not specs:
        yield problem_at(_REPLICAS, "is missing", "name at least one replica type, such as Worker")
        return
    seen: dict[str, str] = {}
    for name in specs:
        canonical = canonical_type(name)
        if canonical in seen:
            said = f"is the same replica type as {seen[canonical]}"
            yield problem_at((*_REPLICAS, name), said, "keep one of them")
        seen.setdefault(canonical, name)
    if all(_count(spec) == 0 for spec in specs.values()):
        yield problem_at(_REPLICAS, "the job has no replicas: all counts are 0", "set runPolicy.suspend to pause a job")
    total = sum(_count(spec) for spec in specs.values())
    if total > MOST_REPLICAS:
        said = f"the job has {total} replicas, {MOST_REPLICAS} are the most"
        yield problem_at(_REPLICAS, said, "make it several jobs")
    leaders = {name: _count(spec) for name, spec in specs.items() if canonical_type(name) in (CHIEF, MASTER)}
    if sum(leaders.values()) > 1:
        last = next(name for name, count in reversed(leaders.items()) if count)
        counts = " and ".join(f"{name} has {count}" for name, count in leaders.items())
        said = f"a job has one Chief or Master in all, here {counts}"
        yield problem_at((*_REPLICAS, last), said, "make the others Workers")


def _replica_problems(job: TFJob, name: str, spec: ReplicaSpec) -> Iterator[Problem]:
    path: Path = (*_REPLICAS, name)
    canonical = canonical_type(name)
    if canonical not in REPLICA_TYPES and not origin(job).is_v1alpha1:  # v1alpha1 names its own three
        said = f"unknown replica type {name}, known are {', '.join(REPLICA_TYPES)}"
        yield problem_at(path, said, did_you_mean(name, REPLICA_TYPES))
    elif name != canonical and job.metadata.labels.get(KUEUE_QUEUE):
        # It reads the keys as stored: a job with no other type is suspended for ever, and nothing says why.
        yield problem_at(path, "Kueue does not see a type in this spelling", f"write {canonical}", warning=True)
    yield from at_least({"replicas": spec.replicas}, "replicas", 0, path)
    yield from one_of_problem(spec.restart_policy, RESTART_POLICIES, (*path, "restartPolicy"))
    if spec.template is None:
        if canonical != PS:
            yield problem_at((*path, "template"), "is missing", "it describes the replica's pod")
        return
    yield from _template_problems(job, canonical, spec, (*path, "template"))


def _template_problems(job: TFJob, name: str, spec: ReplicaSpec, path: Path) -> Iterator[Problem]:
    template = spec.template or {}
    yield from _label_problems((template.get("metadata") or {}).get("labels") or {}, (*path, "metadata", "labels"))
    pod: dict[str, Any] = template.get("spec", {})
    where = (*path, "spec")
    containers = pod.get("containers", [])
    is_ours = serves_by_default(job, name, spec)
    if not containers and not is_ours:
        yield problem_at((*where, "containers"), "must have at least one container")
        return
    yield from _container_name_problems(job, name, containers, (*where, "containers"))
    yield from pod_problems(pod, where, [PS_VOLUME] if is_ours else ())
    yield from _storage_problems(pod, where)
    if is_ours:
        yield from _server_image_problem(job, spec)
    own = pod.get("restartPolicy")
    known = own in POD_RESTART_POLICIES and spec.restart_policy in RESTART_POLICIES
    if known and own != spec.restart_policy:
        said = f"{own} is not used: the replica's own restartPolicy {spec.restart_policy} goes before it"
        yield problem_at((*where, "restartPolicy"), said, "remove one of them", warning=True)


def _storage_problems(pod: dict[str, Any], path: Path) -> Iterator[Problem]:
    for index, volume in enumerate(pod.get("volumes") or ()):
        if volume.get("name") == JOB_VOLUME and "emptyDir" in volume:
            message = (
                f"{JOB_VOLUME} is the job's own storage, and an emptyDir is neither shared by its replicas nor kept"
            )
            hint = "use a persistentVolumeClaim, or give the volume another name"
            yield problem_at((*path, "volumes", index, "emptyDir"), message, hint, warning=True)


def _server_image_problem(job: TFJob, spec: ReplicaSpec) -> Iterator[Problem]:
    """Warn if the image of a default parameter server was edited after it was written back into the template."""
    image = (server_container(spec.template) or {}).get("image")
    if image and job.spec.tf_image not in ("", image):
        message = f"is not used: the template of the parameter server names {image}, which goes before it"
        yield Problem("spec.tfImage", message, "write the same image in both", warning=True)


def _container_name_problems(job: TFJob, name: str, containers: list[dict[str, Any]], path: Path) -> Iterator[Problem]:
    names = [container.get("name", "") for container in containers]
    given = ", ".join(name for name in names if name)
    hint = f"rename the one that trains (found: {given})" if given else f"write name: {CONTAINER_NAME}"
    if origin(job).api_version == BATCH or CONTAINER_NAME in names or (name == PS and origin(job).is_v1alpha1):
        pass
    elif origin(job).is_v1alpha1 and name in _NAMED_BY_DOCUMENTS:
        message = f"a {name.upper()} of v1alpha1 needs a container named {CONTAINER_NAME}"
        yield problem_at((*path, 0, "name"), message, hint)
    elif len(containers) > 1:
        yield problem_at(path, f"one of several containers must be named {CONTAINER_NAME}", hint)
    if len(containers) > 1:
        for index in (index for index, own in enumerate(names) if not own):
            yield problem_at((*path, index, "name"), "is missing", "each of several containers needs one")


def _run_policy_problems(job: TFJob) -> Iterator[Problem]:
    path: Path = ("spec", "runPolicy")
    policy = job.spec.run_policy
    values = to_builtins(policy)
    yield from at_least(values, "ttlSecondsAfterFinished", 0, path)
    yield from at_least(values, "activeDeadlineSeconds", 1, path)
    yield from at_least(values, "backoffLimit", 0, path)
    yield from one_of_problem(policy.clean_pod_policy, CLEAN_POD_POLICIES, (*path, "cleanPodPolicy"))
    yield from one_of_problem(policy.managed_by, MANAGERS, (*path, "managedBy"))
    if policy.scheduling_policy:
        total = sum(_count(spec) for spec in job.spec.tf_replica_specs.values())
        needed = policy.scheduling_policy.min_available
        where = (*path, "schedulingPolicy")
        yield from at_least(values["schedulingPolicy"], "scheduleTimeoutSeconds", 0, where)
        yield from at_least(values["schedulingPolicy"], "minAvailable", 0, where)
        if needed is not None and needed > total:
            message = f"{needed} pods are never there at once: the job has {total}"
            # A gang scheduler lets it wait, and v1.9's users count on a later edit that asks for less.
            yield problem_at((*where, "minAvailable"), message, "nothing starts meanwhile", warning=True)


def _policy_problems(job: TFJob) -> Iterator[Problem]:
    yield from one_of_problem(job.spec.success_policy, SUCCESS_POLICIES, ("spec", "successPolicy"))
    yield from one_of_problem(job.spec.restart_scope, RESTART_SCOPES, ("spec", "restartScope"))
    yield from image_problem(job.spec.tf_image, ("spec", "tfImage"))


def _tensor_board_problems(job: TFJob) -> Iterator[Problem]:
    board = job.spec.tensor_board
    if board is None:
        return
    path: Path = ("spec", "tensorBoard")
    if not board.log_dir:
        yield problem_at((*path, "logDir"), "is missing", "name the folder that TensorBoard shows")
    yield from image_problem(board.image, (*path, "image"))
    yield from one_of_problem(board.service_type, SERVICE_TYPES, (*path, "serviceType"))
    yield from mount_problems(board.volume_mounts, board.volumes, (*path, "volumeMounts"))
    mounted = [PurePosixPath(mount.get("mountPath") or "/") for mount in board.volume_mounts]
    if board.log_dir.startswith("/") and not any(map(PurePosixPath(board.log_dir).is_relative_to, mounted)):
        message = f"no volume is mounted at {board.log_dir}: on a cluster TensorBoard finds nothing there"
        hint = "mount the volume that the training writes to in volumeMounts"
        yield problem_at((*path, "logDir"), message, hint, warning=True)


def _chief_problems(job: TFJob) -> Iterator[Problem]:
    chief = job.spec.termination_policy and job.spec.termination_policy.chief
    if not chief or not job.spec.tf_replica_specs:
        return
    path: Path = ("spec", "terminationPolicy", "chief")
    counts = {canonical_type(name): _count(spec) for name, spec in job.spec.tf_replica_specs.items()}
    name = canonical_type(chief.replica_name)
    if name not in counts:
        known = ", ".join(counts)
        hint = f"add a replica of that type, or name another in terminationPolicy.chief (here are {known})"
        yield problem_at((*path, "replicaName"), f"the job has no {name}, whose end would be its end", hint)
    elif not 0 <= chief.replica_index < counts[name]:
        message = f"there is no {name} {chief.replica_index}: the job has {counts[name]}, counted from 0"
        yield problem_at((*path, "replicaIndex"), message)


def _count(spec: ReplicaSpec) -> int:
    return 1 if spec.replicas is None else spec.replicas
