"""The rules for a job; one pass finds every problem.

The rules are those of the webhook of training-operator v1.9, plus rules for faults that would show only later, such as
names that are too long, mounts of missing volumes and invalid images.
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
from tfjob.api.objects import JOB_VOLUME
from tfjob.api.pod_validation import (
    POD_RESTART_POLICIES,
    at_least,
    image_problem,
    mount_problems,
    one_of_problem,
    pod_problems,
)
from tfjob.api.problems import Path, Problem, problem_at
from tfjob.api.suggest import nearest, suggestion
from tfjob.api.types import (
    CHIEF,
    CONTAINER_NAME,
    EVALUATOR_GRACE,
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
MANAGERS = ("kubeflow.org/training-operator", "kueue.x-k8s.io/multikueue")
MAX_NAME = 63
KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
"""Label of a job that Kueue starts."""

_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_DNS_1123 = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_REPLICAS: Path = ("spec", "tfReplicaSpecs")
_NAMED_BY_DOCUMENTS = (MASTER, WORKER)


def validate(job: TFJob) -> list[Problem]:
    """Return the problems of a job, with or without defaults; the paths are those of the hub type."""
    return [
        *_metadata_problems(job),
        *_replica_set_problems(job),
        *(found for name, spec in job.spec.tf_replica_specs.items() for found in _replica_problems(job, name, spec)),
        *_policy_problems(job),
        *_tensor_board_problems(job),
        *_chief_problems(job),
    ]


def _metadata_problems(job: TFJob) -> Iterator[Problem]:
    metadata = job.metadata
    if not metadata.name:
        hint = "give the job a name (generateName is not supported), or run it with --name"
        yield Problem("metadata.name", "is missing", hint)
    else:
        yield from _name_problems(job)
        yield from _child_name_problems(job)
    if metadata.namespace and not (_DNS_1123.fullmatch(metadata.namespace) and len(metadata.namespace) <= 63):
        hint = "use lowercase letters, digits and '-', at most 63 characters"
        yield Problem("metadata.namespace", f"{metadata.namespace!r} is not a valid namespace", hint)
    yield from _label_problems(metadata.labels, ("metadata", "labels"))
    runtime_id = metadata.annotations.get(RUNTIME_ID)
    if runtime_id is not None and not re.fullmatch(r"[0-9A-Za-z]{1,10}", runtime_id):
        where = ("metadata", "annotations", RUNTIME_ID)
        yield problem_at(where, f"must be 1 to 10 letters and digits, not {runtime_id!r}")
    grace = metadata.annotations.get(EVALUATOR_GRACE)
    if grace is not None and not re.fullmatch(r"[0-9]{1,9}", grace):
        where = ("metadata", "annotations", EVALUATOR_GRACE)
        yield problem_at(where, f"must be a number of seconds, 0 or more, not {grace!r}")
    port = metadata.annotations.get(PS_PORT)
    if port is not None and not (re.fullmatch(r"[0-9]{1,5}", port) and 1 <= int(port) <= 65535):
        yield problem_at(("metadata", "annotations", PS_PORT), f"must be between 1 and 65535, not {port}")


def _label_problems(labels: Mapping[str, Any], where: Path) -> Iterator[Problem]:
    for key, value in labels.items():
        path = (*where, key)
        if not _LABEL_KEY.fullmatch(key):
            hint = "use letters, digits, '-', '_' and '.', at most 63 characters after an optional 'prefix/'"
            yield problem_at(path, f"{key!r} is not a valid label name", hint)
        if not _LABEL_VALUE.fullmatch(str(value)):
            hint = "use letters, digits, '-', '_' and '.', at most 63 characters, or move the text to an annotation"
            yield problem_at(path, f"{value!r} is not a valid label value", hint)


def _name_problems(job: TFJob) -> Iterator[Problem]:
    name = job.metadata.name
    rule = _DNS_1123 if origin(job).api_version == BATCH else _DNS_1035
    if len(name) > MAX_NAME:
        yield Problem("metadata.name", f"is {len(name)} characters long, but the maximum is {MAX_NAME}", "shorten it")
    elif not rule.fullmatch(name):
        possible = possible_name(name)
        example = f", for example {possible}" if possible else ""
        hint = f"use lowercase letters, digits and '-', with a letter first and no '-' at the end{example}"
        yield Problem("metadata.name", f"{name!r} is not a valid job name", hint)


def possible_name(name: str) -> str:
    """Return the valid job name that is most similar to a text; empty if there is none."""
    letters = "".join(part for part in unicodedata.normalize("NFKD", name) if not unicodedata.combining(part))
    plain = re.sub(r"[^a-z0-9]+", "-", letters.lower()).strip("-")
    return plain if _DNS_1035.fullmatch(plain) else f"job-{plain}" if plain else ""


def _child_name_problems(job: TFJob) -> Iterator[Problem]:
    """Check the longest name of a child, which is also a host name and so has at most 63 characters."""
    names = [
        child_name(job, canonical_type(replica_type), spec.count - 1)
        for replica_type, spec in job.spec.tf_replica_specs.items()
        if spec.count > 0
    ]
    if job.spec.tensor_board is not None:
        names.append(tensorboard_name(job))
    longest = max(names, key=len, default="")
    if len(longest) > MAX_NAME >= len(job.metadata.name):
        over = len(longest) - MAX_NAME
        message = f"the child name '{longest}' would be {len(longest)} characters long, but the maximum is {MAX_NAME}"
        hint = f"shorten the name of the job by {over}, to at most {len(job.metadata.name) - over} characters"
        yield Problem("metadata.name", message, hint)


def _replica_set_problems(job: TFJob) -> Iterator[Problem]:
    specs = job.spec.tf_replica_specs
    if not specs:
        yield problem_at(_REPLICAS, "is missing", "add at least one replica type, such as Worker")
        return
    seen: dict[str, str] = {}
    for name in specs:
        first = seen.setdefault(canonical_type(name), name)
        if first != name:
            yield problem_at((*_REPLICAS, name), f"is the same replica type as {first}", "remove one of them")
    if all(spec.count == 0 for spec in specs.values()):
        hint = "raise one of them, or pause the job with runPolicy.suspend: true"
        yield problem_at(_REPLICAS, "the job has no replicas: all counts are 0", hint)
    total = sum(spec.count for spec in specs.values())
    if total > MOST_REPLICAS:
        said = f"the job has {total} replicas, but the maximum is {MOST_REPLICAS}"
        yield problem_at(_REPLICAS, said, "split it into several jobs")
    leaders = {name: spec.count for name, spec in specs.items() if canonical_type(name) in (CHIEF, MASTER)}
    if sum(leaders.values()) > 1:
        last = next(name for name, count in reversed(leaders.items()) if count)
        said = f"a job can have only one Chief or Master, but this one has {sum(leaders.values())}"
        yield problem_at((*_REPLICAS, last), said, "make the others Workers")


def _replica_problems(job: TFJob, name: str, spec: ReplicaSpec) -> Iterator[Problem]:
    path: Path = (*_REPLICAS, name)
    canonical = canonical_type(name)
    if canonical not in REPLICA_TYPES and not origin(job).is_v1alpha1:  # v1alpha1 names its own three
        yield problem_at(path, f"unknown replica type '{name}'", suggestion(name, REPLICA_TYPES))
    elif name != canonical and job.metadata.labels.get(KUEUE_QUEUE):
        # Kueue reads the keys as stored: a job with no other type stays suspended forever, without an explanation.
        yield problem_at(path, f"Kueue does not know the replica type '{name}'", f"write {canonical}", warning=True)
    yield from at_least({"replicas": spec.replicas}, "replicas", 0, path)
    yield from one_of_problem(spec.restart_policy, RESTART_POLICIES, (*path, "restartPolicy"))
    if spec.template is None:
        if canonical != PS:
            yield problem_at((*path, "template"), "is missing", "add the pod template of the replicas")
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
        said = f"{own} is ignored because the restartPolicy of the replica is {spec.restart_policy}"
        yield problem_at((*where, "restartPolicy"), said, "remove one of them", warning=True)


def _storage_problems(pod: dict[str, Any], path: Path) -> Iterator[Problem]:
    for index, volume in enumerate(pod.get("volumes") or ()):
        if volume.get("name") == JOB_VOLUME and "emptyDir" in volume:
            message = f"{JOB_VOLUME} is the storage of the job, but an emptyDir is not shared by replicas and not kept"
            hint = "use a persistentVolumeClaim, or rename the volume"
            yield problem_at((*path, "volumes", index, "emptyDir"), message, hint, warning=True)


def _server_image_problem(job: TFJob, spec: ReplicaSpec) -> Iterator[Problem]:
    """Warn if `tfImage` was edited after the operator wrote it into the template of a default parameter server."""
    image = (server_container(spec.template) or {}).get("image")
    if image and job.spec.tf_image not in ("", image):
        message = f"is ignored because the template of the parameter server has the image {image}"
        yield Problem("spec.tfImage", message, "use the same image in both", warning=True)


def _container_name_problems(job: TFJob, name: str, containers: list[dict[str, Any]], path: Path) -> Iterator[Problem]:
    names = [container.get("name", "") for container in containers]
    given = ", ".join(name for name in names if name)
    hint = f"rename the container that trains (found: {given})" if given else f"add name: {CONTAINER_NAME}"
    if origin(job).api_version == BATCH or CONTAINER_NAME in names or (name == PS and origin(job).is_v1alpha1):
        pass
    elif origin(job).is_v1alpha1 and name in _NAMED_BY_DOCUMENTS:
        message = f"a {name.upper()} of v1alpha1 needs a container named {CONTAINER_NAME}"
        yield problem_at((*path, 0, "name"), message, hint)
    elif len(containers) > 1:
        yield problem_at(path, f"one of the containers must be named {CONTAINER_NAME}", hint)
    if len(containers) > 1:
        for index in (index for index, own in enumerate(names) if not own):
            yield problem_at((*path, index, "name"), "is missing", "if a pod has several containers, each needs a name")


def _policy_problems(job: TFJob) -> Iterator[Problem]:
    yield from one_of_problem(job.spec.success_policy, ("", "AllWorkers"), ("spec", "successPolicy"))
    yield from one_of_problem(job.spec.restart_scope, ("Auto", "Task", "Gang"), ("spec", "restartScope"))
    yield from image_problem(job.spec.tf_image, ("spec", "tfImage"))
    path: Path = ("spec", "runPolicy")
    policy = job.spec.run_policy
    values = to_builtins(policy)
    yield from at_least(values, "ttlSecondsAfterFinished", 0, path)
    yield from at_least(values, "activeDeadlineSeconds", 1, path)
    yield from at_least(values, "backoffLimit", 0, path)
    yield from at_least(values, "evaluatorGraceSeconds", 0, path)
    yield from one_of_problem(policy.clean_pod_policy, ("All", "Running", "None"), (*path, "cleanPodPolicy"))
    yield from one_of_problem(policy.managed_by, MANAGERS, (*path, "managedBy"))
    if policy.scheduling_policy:
        total = sum(spec.count for spec in job.spec.tf_replica_specs.values())
        needed = policy.scheduling_policy.min_available
        where = (*path, "schedulingPolicy")
        yield from at_least(values["schedulingPolicy"], "scheduleTimeoutSeconds", 0, where)
        yield from at_least(values["schedulingPolicy"], "minAvailable", 0, where)
        if needed is not None and needed > total:
            message = f"{needed} is more than the number of pods ({total}), so no pod starts"
            # Only a warning: a gang scheduler lets the job wait, and users of v1.9 rely on lowering the number later.
            yield problem_at((*where, "minAvailable"), message, "lower it, or add replicas", warning=True)


def _tensor_board_problems(job: TFJob) -> Iterator[Problem]:
    board = job.spec.tensor_board
    if board is None:
        return
    path: Path = ("spec", "tensorBoard")
    if not board.log_dir:
        yield problem_at((*path, "logDir"), "is missing", "set it to the folder with the event files")
    yield from image_problem(board.image, (*path, "image"))
    types = ("", "ClusterIP", "NodePort", "LoadBalancer")
    yield from one_of_problem(board.service_type, types, (*path, "serviceType"))
    yield from mount_problems(board.volume_mounts, board.volumes, (*path, "volumeMounts"))
    mounted = [PurePosixPath(mount.get("mountPath") or "/") for mount in board.volume_mounts]
    if board.log_dir.startswith("/") and not any(map(PurePosixPath(board.log_dir).is_relative_to, mounted)):
        message = f"no volume is mounted at {board.log_dir}, so TensorBoard finds no files there on a cluster"
        hint = "add the volume that the replicas write to in volumeMounts"
        yield problem_at((*path, "logDir"), message, hint, warning=True)


def _chief_problems(job: TFJob) -> Iterator[Problem]:
    chief = job.spec.termination_policy and job.spec.termination_policy.chief
    if not chief or not job.spec.tf_replica_specs:
        return
    path: Path = ("spec", "terminationPolicy", "chief")
    counts = {canonical_type(name): spec.count for name, spec in job.spec.tf_replica_specs.items()}
    name = canonical_type(chief.replica_name)
    if name not in counts:
        if nearest(name, counts.keys() - set(REPLICA_TYPES)):
            return  # a misspelled type is reported already
        hint = f"add a {name}, or name another type in terminationPolicy.chief (found: {', '.join(counts)})"
        yield problem_at((*path, "replicaName"), f"the job ends with its {name}, but it has none", hint)
    elif not 0 <= chief.replica_index < counts[name]:
        message = f"there is no {name} {chief.replica_index}: the job has {counts[name]}, and indexes start at 0"
        yield problem_at((*path, "replicaIndex"), message)
