"""`kubeflow.org/v1alpha1` TFJob and `tensorflow.org/v1alpha1` TfJob: a list of replicas with a type and a port."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

import msgspec

from tfjob.api.conversion import Conversion, canonical_type, own_metadata, recorded_origin, written_metadata
from tfjob.api.defaults import training_container
from tfjob.api.parameter_server import server_container, server_port
from tfjob.api.problems import Path, Problem, path_text
from tfjob.api.schema.checker import Definition, Schema
from tfjob.api.schema.pod_schema import pod_definitions
from tfjob.api.suggest import did_you_mean
from tfjob.api.types import (
    API_VERSION,
    CHIEF,
    DEFAULT_PORT,
    MASTER,
    PORT_NAME,
    PS,
    PS_PORT,
    REPLICA_TYPES,
    RUNTIME_ID,
    WORKER,
    TFJob,
)
from tfjob.api.versions import v1
from tfjob.api.versions.write_back import is_default_server

KINDS = (
    ("tensorflow.org/v1alpha1", "TfJob"),
    ("tensorflow.org/v1alpha1", "TFJob"),
    ("kubeflow.org/v1alpha1", "TFJob"),
)

TYPES = (MASTER, PS, WORKER)

DEFINITIONS: dict[str, Definition] = {
    "TFJob": v1.DEFINITIONS["TFJob"],
    "Metadata": v1.DEFINITIONS["Metadata"],
    "TFJobSpec": {
        "RuntimeId": "string",
        "replicaSpecs": "[ReplicaSpec]",
        "tensorboard": "TensorBoard",
        "terminationPolicy": "TerminationPolicy",
        "tfImage": "string",
        "schedulerName": "string",
    },
    "ReplicaSpec": {
        "IsDefaultPS": "bool",
        "replicas": "int",
        "template": "PodTemplateSpec",
        "tfPort": "int",
        "tfReplicaType": "string",
    },
    "TensorBoard": {name: kind for name, kind in v1.DEFINITIONS["TensorBoard"].items() if name != "image"},
    "TerminationPolicy": v1.DEFINITIONS["TerminationPolicy"],
    "Chief": v1.DEFINITIONS["Chief"],
}


@cache
def schema() -> Schema:
    """What such a manifest may hold; the operator matched its names in any case, and samples use `replica_specs`."""
    hints = {
        ("TFJobSpec", "tfReplicaSpecs"): f"here it is the list replicaSpecs, or use apiVersion: {API_VERSION}",
        ("ReplicaSpec", "restartPolicy"): "in this version it stands in template.spec",
    }
    newer = v1.DEFINITIONS["TFJobSpec"].keys() | {"cleanPodPolicy"}
    for name in newer - DEFINITIONS["TFJobSpec"].keys():
        hints.setdefault(("TFJobSpec", name), f"it needs apiVersion: {API_VERSION}")
    return Schema(
        {**pod_definitions(), **DEFINITIONS},
        folded=frozenset({"TFJobSpec", "ReplicaSpec", "TensorBoard", "TerminationPolicy", "Chief"}),
        aliases={"replica_specs": "replicaSpecs", "tf_replica_type": "tfReplicaType", "tf_port": "tfPort"},
        hints=hints,
    )


def canonical_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A stored spec with the names of its fields as the documents spell them, whatever spelling it has."""
    checked = schema().check({"spec": renewed(spec)}, "TFJob")
    canonical: dict[str, Any] = checked.value.get("spec", {})
    return canonical


def is_completed(spec: Mapping[str, Any]) -> bool:
    """Whether an operator has written into a stored spec, in the spelling of the documents."""
    return bool(spec.get("RuntimeId"))


def renewed(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A stored spec without what was given again since, in a spelling of the user's.

    `kubectl apply` does so whenever a manifest is applied that is spelt otherwise than what the operator wrote.
    """
    return _renewed(spec, "TFJobSpec") if is_completed(spec) else dict(spec)


def _renewed(given: Mapping[str, Any], kind: str) -> dict[str, Any]:
    own = {key: schema().own_field(kind, key) for key, item in given.items() if item is not None}
    again = {name for key, name in own.items() if name != key}
    kept = {key: item for key, item in given.items() if key not in again}
    for key, item in kept.items():
        inner = DEFINITIONS[kind].get(own.get(key, ""), "")
        if isinstance(item, dict) and inner in DEFINITIONS:
            kept[key] = _renewed(item, inner)
    return kept


def to_hub(manifest: Mapping[str, Any], filled: Collection[Path] = ()) -> Conversion:
    """Read a manifest of v1alpha1."""
    checked = schema().check(manifest, "TFJob", filled)
    given = checked.value.get("spec", {})
    reading = _Reading(given)
    spec: dict[str, Any] = {
        "tfReplicaSpecs": reading.replicas(),
        "terminationPolicy": {"chief": _chief(given)},
        "tfImage": given.get("tfImage", ""),
    }
    if "tensorboard" in given:
        spec["tensorBoard"] = given["tensorboard"]
    annotations = recorded_origin(manifest["apiVersion"])
    if runtime_id := given.get("RuntimeId"):
        annotations[RUNTIME_ID] = runtime_id
    if reading.server_port is not None:
        annotations[PS_PORT] = str(reading.server_port)
    job = msgspec.convert({"metadata": own_metadata(checked.value, **annotations), "spec": spec}, TFJob)
    moved: tuple[tuple[Path, Path], ...] = (
        *reading.moved,
        (("spec", "tensorBoard"), ("spec", "tensorboard")),
        (("spec", "tfReplicaSpecs"), ("spec", "replicaSpecs")),
        (("metadata", "annotations", RUNTIME_ID), ("spec", "RuntimeId")),
    )
    conversion = Conversion(job, checked.problems, moved, checked.renamed)
    for path, message, hint in reading.found:
        conversion.problems.append(Problem(path_text(conversion.user_path(path)), message, hint))
    return conversion


class _Reading:
    """The list of replicas on its way to the hub's mapping."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.spec = spec
        self.moved: list[tuple[Path, Path]] = []
        self.found: list[tuple[Path, str, str]] = []
        self.server_port: int | None = None

    def replicas(self) -> dict[str, Any]:
        replicas: dict[str, Any] = {}
        for index, given in enumerate(self.spec.get("replicaSpecs", [])):
            own: Path = ("spec", "replicaSpecs", index)
            name = canonical_type(given.get("tfReplicaType", MASTER))
            self.judge_type(name, given, own, replicas)
            if name in replicas:
                continue
            hub: Path = ("spec", "tfReplicaSpecs", name)
            self.moved.append((hub, own))
            replicas[name] = self.replica(given, name, hub, own)
        return replicas

    def judge_type(self, name: str, given: Mapping[str, Any], own: Path, known: Mapping[str, Any]) -> None:
        written = given.get("tfReplicaType", "MASTER")
        path = (*own, "tfReplicaType")
        if name in known:
            hint = "give each replica its tfReplicaType (the default is MASTER), or raise replicas"
            self.found.append((path, f"{written} is given twice", hint))
        elif name not in TYPES:
            upper = [kind.upper() for kind in TYPES]
            newer = f"{written} needs apiVersion: {API_VERSION}" if name in REPLICA_TYPES else ""
            hint = newer or did_you_mean(written, upper)
            self.found.append((path, f"unknown replica type {written}, known are {', '.join(upper)}", hint))

    def replica(self, given: Mapping[str, Any], name: str, hub: Path, own: Path) -> dict[str, Any]:
        replica = {key: given[key] for key in ("replicas",) if key in given}
        template = given.get("template")
        if name == PS and is_default_server(template, self.spec.get("tfImage")):
            template = None
        has_place = says_port(name, template)
        if not has_place and given.get("tfPort", DEFAULT_PORT) != DEFAULT_PORT:
            self.server_port = given["tfPort"]
            self.moved.append((("metadata", "annotations", PS_PORT), (*own, "tfPort")))
        if template is None:
            return replica
        pod = template.get("spec", {})
        if "schedulerName" in self.spec:
            pod = {"schedulerName": self.spec["schedulerName"], **pod}
        if "tfPort" in given and has_place and pod.get("containers"):
            pod = self.with_port(pod, given["tfPort"], hub, own)
        return {**replica, "template": {**template, "spec": pod} if pod else template}

    def with_port(self, pod: Mapping[str, Any], number: int, hub: Path, own: Path) -> dict[str, Any]:
        pod, place = with_port(pod, number)
        place = ("template", "spec", *place)
        self.moved.append(((*hub, *place), (*own, "tfPort")))
        self.moved.append(((*hub, *place, "containerPort"), (*own, "tfPort")))
        return pod


def with_port(pod: Mapping[str, Any], number: int) -> tuple[dict[str, Any], Path]:
    """The pod with `tfPort` as the training port of its container, and where that stands in it."""
    containers = [dict(container) for container in pod["containers"]]
    container = training_container(containers)
    others = [port for port in container.get("ports") or () if port.get("name") != PORT_NAME]
    container["ports"] = [*others, {"name": PORT_NAME, "containerPort": number}]
    return {**pod, "containers": containers}, ("containers", containers.index(container), "ports", len(others))


def says_port(name: str, template: Mapping[str, Any] | None) -> bool:
    """Whether the template of a type is where its port belongs: not if the server is to come beside what it has."""
    return name != PS or server_container(template) is not None


def _chief(spec: Mapping[str, Any]) -> dict[str, Any]:
    chief = spec.get("terminationPolicy", {}).get("chief", {})
    return {**chief, "replicaName": canonical_type(chief.get("replicaName", MASTER))}


def from_hub(job: TFJob, api_version: str) -> tuple[dict[str, Any], list[Problem]]:
    """The job as a manifest of v1alpha1, and what that version cannot say."""
    problems: list[Problem] = []
    value = msgspec.to_builtins(job)
    spec: dict[str, Any] = {}
    if runtime_id := job.metadata.annotations.get(RUNTIME_ID):
        spec["RuntimeId"] = runtime_id
    spec["replicaSpecs"] = []
    for name, replica in value["spec"].get("tfReplicaSpecs", {}).items():
        if written := _written_replica(name, replica, problems):
            spec["replicaSpecs"].append(written)
            if PS_PORT in job.metadata.annotations and not says_port(name, replica.get("template")):
                written["tfPort"] = server_port(job)
    if policy := value["spec"].get("terminationPolicy"):
        spec["terminationPolicy"] = {"chief": _written_chief(policy.get("chief", {}))}
    if board := value["spec"].get("tensorBoard"):
        spec["tensorboard"] = {key: item for key, item in board.items() if key != "image"}
        if "image" in board:
            problems.append(Problem("spec.tensorBoard.image", "v1alpha1 takes spec.tfImage: it is left out"))
    if image := value["spec"].get("tfImage"):
        spec["tfImage"] = image
    problems += _unsayable(value["spec"])
    metadata = written_metadata(job, PS_PORT)
    kind = next(kind for version, kind in KINDS if version == api_version)
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}, problems


def _written_replica(name: str, replica: Mapping[str, Any], problems: list[Problem]) -> dict[str, Any]:
    path = f"spec.tfReplicaSpecs.{name}"
    if name == CHIEF:
        problems.append(Problem(path, "is written as MASTER: TF_CONFIG will say master", warning=True))
    elif name not in TYPES:
        problems.append(Problem(path, f"v1alpha1 has no {name}: it is left out"))
        return {}
    written = {key: replica[key] for key in ("replicas",) if key in replica}
    written["tfReplicaType"] = MASTER.upper() if name == CHIEF else name.upper()
    if "template" not in replica:
        return written
    pod = dict(replica["template"].get("spec", {}))
    if says_port(name, replica["template"]):
        pod["containers"], port = without_port(pod.get("containers", []))
        if port:
            written["tfPort"] = port
    if policy := replica.get("restartPolicy"):
        pod["restartPolicy"] = policy if policy in ("Never", "OnFailure") else "OnFailure"
        if policy != pod["restartPolicy"]:
            problems.append(Problem(f"{path}.restartPolicy", f"{policy} is written as OnFailure", warning=True))
    return {**written, "template": {**replica["template"], "spec": pod}}


def without_port(containers: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    """The containers without the training port, and its number: v1alpha1 writes it as `tfPort`."""
    number = 0
    kept = []
    for container in containers:
        ports = container.get("ports") or ()
        number = next((port.get("containerPort", 0) for port in ports if port.get("name") == PORT_NAME), number)
        others = [port for port in ports if port.get("name") != PORT_NAME]
        plain = {key: item for key, item in container.items() if key != "ports"}
        kept.append({**plain, "ports": others} if others else plain)
    return kept, number


def _written_chief(chief: Mapping[str, Any]) -> dict[str, Any]:
    name = chief.get("replicaName", MASTER)
    upper = MASTER.upper() if name == CHIEF else name.upper()
    return {"replicaName": upper, "replicaIndex": chief.get("replicaIndex", 0)}


def _unsayable(spec: Mapping[str, Any]) -> list[Problem]:
    said = ("tfReplicaSpecs", "terminationPolicy", "tensorBoard", "tfImage", "runPolicy")
    paths = [f"spec.{name}" for name in spec if name not in said]
    paths += [f"spec.runPolicy.{name}" for name in spec.get("runPolicy", {})]
    return [Problem(path, "v1alpha1 has no such field: it is left out") for path in paths]
