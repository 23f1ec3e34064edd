"""`kubeflow.org/v1alpha1` TFJob and `tensorflow.org/v1alpha1` TfJob: a list of replicas with a type and a port.

`to_hub` and `from_hub` convert manifests and report every problem. `to_v1` and `from_v1` convert stored objects, as
plain values, and judge nothing, as in `v1beta`.

The plain form of a stored object has its replicas next to the spec, by type, as v1 has them, and their order: a note
about one replica type stays true when another one comes or goes. Of the status, the plain form has what v1 says; all
the rest is derived from that.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import Any

import msgspec

from tfjob.api.conversion import Conversion, canonical_type, own_metadata, recorded_origin, written_metadata
from tfjob.api.defaults import server_container, server_port, training_container
from tfjob.api.dialect import TENSORFLOW, TF_JOB
from tfjob.api.problems import Path, Problem, path_text
from tfjob.api.schema.checker import Definition, Schema, pod_definitions
from tfjob.api.suggest import did_you_mean
from tfjob.api.types import (
    API_VERSION,
    CHIEF,
    DEFAULT_PORT,
    KIND,
    MASTER,
    PORT_NAME,
    PS,
    PS_PORT,
    REPLICA_TYPES,
    RUNTIME_ID,
    WORKER,
    ReplicaSpec,
    TFJob,
    TFJobSpec,
    TFJobStatus,
)
from tfjob.api.versions import v1
from tfjob.api.versions.spelling import Spelling, respelt, spelt_back
from tfjob.api.versions.status import v1alpha1_status
from tfjob.api.versions.v1beta import DETAILS, RUN_POLICY, Object, mapping, with_origin, without_origin
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
_BY_TYPE, _ORDER = "replicas", "order"
"""Keys of the plain form in addition to the spec: the replicas by type, and the order of the types."""
_REPLICAS = "replicaSpecs"


@cache
def schema() -> Schema:
    """Return what such a manifest may hold; the operator ignored the case of names, and samples use `replica_specs`."""
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
    """Return a stored spec with the documented spelling of its fields."""
    checked = schema().check({"spec": renewed(spec)}, "TFJob")
    canonical: dict[str, Any] = checked.value.get("spec", {})
    return canonical


def is_completed(spec: Mapping[str, Any]) -> bool:
    """Return whether an operator has written its defaults into a stored spec."""
    return bool(spec.get("RuntimeId"))


def renewed(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored spec without fields that were applied again since, in the user's spelling.

    `kubectl apply` adds those if a manifest spells a field differently from what the operator wrote.
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
    """Return the pod with `tfPort` as the training port of its container, and the path of that port."""
    containers = [dict(container) for container in pod["containers"]]
    container = training_container(containers)
    others = [port for port in container.get("ports") or () if port.get("name") != PORT_NAME]
    container["ports"] = [*others, {"name": PORT_NAME, "containerPort": number}]
    return {**pod, "containers": containers}, ("containers", containers.index(container), "ports", len(others))


def says_port(name: str, template: Mapping[str, Any] | None) -> bool:
    """Return whether the template of a type holds its port: not if our server is added to its containers."""
    return name != PS or server_container(template) is not None


def _chief(spec: Mapping[str, Any]) -> dict[str, Any]:
    chief = spec.get("terminationPolicy", {}).get("chief", {})
    return {**chief, "replicaName": canonical_type(chief.get("replicaName", MASTER))}


def from_hub(job: TFJob, api_version: str) -> tuple[dict[str, Any], list[Problem]]:
    """Return the job as a manifest of v1alpha1, and what that version cannot express."""
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
    """Return the containers without the training port, and its number: v1alpha1 writes it as `tfPort`."""
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


def plain(job: Object) -> tuple[Object, list[Spelling]]:
    """Return an object of v1alpha1 in one spelling with its replicas by type, and which spellings were changed."""
    found: list[Spelling] = []
    made = dict(job)
    if isinstance(job.get("spec"), dict):
        # What the operator wrote into a TfJob gives way to what was applied since, in whatever spelling.
        users_first = job["apiVersion"] == TENSORFLOW and is_completed(job["spec"])
        spec = made["spec"] = _respelt(job["spec"], "TFJobSpec", ["spec"], found, users_first)
        for name, kind in (("tensorboard", "TensorBoard"), ("terminationPolicy", "TerminationPolicy")):
            if isinstance(spec.get(name), dict):
                spec[name] = _respelt(spec[name], kind, ["spec", name], found, users_first)
        chief = mapping(spec.get("terminationPolicy")).get("chief")
        if isinstance(chief, dict):
            own = _respelt(chief, "Chief", ["spec", "terminationPolicy", "chief"], found, users_first)
            spec["terminationPolicy"] = {**spec["terminationPolicy"], "chief": own}
        replicas = _by_type(spec.get(_REPLICAS), found)
        if replicas is not None:
            del spec[_REPLICAS]
            made |= {_BY_TYPE: replicas, _ORDER: list(replicas)}
    if DETAILS in mapping(job.get("status")):
        made["status"] = {DETAILS: job["status"][DETAILS]}
    return made, found


def written(job: Object, spelt: list[Spelling]) -> Object:
    # From the inside to the outside: a path is made of our names.
    inner = [one for one in reversed(spelt) if one[0] != ["spec"]]
    made = dict(spelt_back(job, inner))
    order, by_type = made.pop(_ORDER, []), made.pop(_BY_TYPE, None)
    if DETAILS in mapping(made.get("status")):
        kinds = {kind: by_type[kind] for kind in _ordered(by_type, order)} if by_type else {}
        made["status"] = {**_alpha_status(made["status"][DETAILS], kinds), **made["status"]}
    if by_type is not None and isinstance(made.get("spec"), dict):
        made["spec"] = {**made["spec"], _REPLICAS: [by_type[kind] for kind in _ordered(by_type, order)]}
    return spelt_back(made, [one for one in spelt if one[0] == ["spec"]])


def plain_v1(job: Object) -> tuple[Object, list[Spelling]]:
    """Return a v1 object with the types of v1alpha1, where a chief is a master."""
    replicas = mapping(mapping(job.get("spec")).get("tfReplicaSpecs"))
    found: list[Spelling] = []
    named = respelt(replicas, _alpha_type, ["spec", "tfReplicaSpecs"], found)
    return {**job, "spec": {**job["spec"], "tfReplicaSpecs": named}} if found else job, found


def to_v1(job: Object) -> Object:
    """Convert `job` from v1alpha1 to v1, both in their plain form."""
    spec = mapping(job.get("spec"))
    runtime_id = {RUNTIME_ID: spec["RuntimeId"]} if isinstance(spec.get("RuntimeId"), str) else {}
    made = {key: job[key] for key in job if key not in (_ORDER, _BY_TYPE, "spec", "status")}
    noted = {**runtime_id, **_noted_port(mapping(mapping(job.get(_BY_TYPE)).get(PS)), spec.get("tfImage"))}
    made |= {"apiVersion": API_VERSION, "metadata": with_origin(job.get("metadata"), job["apiVersion"], **noted)}
    if made.get("kind") == TF_JOB:
        made["kind"] = KIND
    if "spec" in job:
        made["spec"] = _v1_spec(spec, job.get(_BY_TYPE))
    if DETAILS in mapping(job.get("status")):
        made["status"] = job["status"][DETAILS]
    return made


def from_v1(job: Object, api_version: str) -> Object:
    """Convert `job` from v1 to v1alpha1, both in their plain form."""
    made = {**job, "apiVersion": api_version, "metadata": without_origin(job.get("metadata"), api_version, RUNTIME_ID)}
    if api_version == TENSORFLOW and made.get("kind") == KIND:
        made["kind"] = TF_JOB
    if isinstance(spec := job.get("spec"), dict):
        made["spec"] = _alpha_spec(spec)
        if runtime_id := mapping(mapping(job.get("metadata")).get("annotations")).get(RUNTIME_ID):
            made["spec"]["RuntimeId"] = runtime_id
        if isinstance(replicas := spec.get("tfReplicaSpecs"), dict):
            known = {kind: one for kind, one in replicas.items() if isinstance(one, dict) and _is_said(kind)}
            made[_BY_TYPE] = {kind: _alpha_replica(kind, one) for kind, one in known.items()}
            made[_ORDER] = sorted(known)
            if PS in known and (port := _port_noted(job)) and not _stored_says_port(PS, known[PS].get("template")):
                made[_BY_TYPE][PS]["tfPort"] = port
                made["metadata"] = without_origin(job.get("metadata"), api_version, RUNTIME_ID, PS_PORT)
    if "status" in job:
        made["status"] = {DETAILS: job["status"]}
    return made


def _v1_spec(spec: Mapping[str, Any], replicas: Object | None) -> Object:
    made: Object = {"runPolicy": RUN_POLICY, "terminationPolicy": {"chief": _v1_chief(spec)}}
    if replicas is not None:
        scheduler = {"schedulerName": spec["schedulerName"]} if "schedulerName" in spec else {}
        image = spec.get("tfImage")
        made["tfReplicaSpecs"] = {kind: _v1_replica(kind, one, scheduler, image) for kind, one in replicas.items()}
    if isinstance(board := spec.get("tensorboard"), dict):
        made["tensorBoard"] = board
    return {**made, **_given(spec, "tfImage")}


def _v1_chief(spec: Mapping[str, Any]) -> Object:
    chief = mapping(mapping(spec.get("terminationPolicy")).get("chief"))
    name = chief.get("replicaName", MASTER)
    return {**chief, "replicaName": canonical_type(name) if isinstance(name, str) else name}


def _v1_replica(kind: str, given: Object, scheduler: Object, tf_image: Any) -> Object:
    made = _given(given, "replicas")
    template = given.get("template")
    if not isinstance(template, dict) or (kind == PS and is_default_server(template, tf_image)):
        return made
    pod = template.get("spec")
    if isinstance(pod, dict) and scheduler:
        template = {**template, "spec": {**scheduler, **pod}}
    if "tfPort" in given and _is_well_formed(template) and _stored_says_port(kind, template):
        template = {**template, "spec": with_port(template["spec"], given["tfPort"])[0]}
    return {**made, "template": template}


def _noted_port(server: Mapping[str, Any], tf_image: Any) -> Object:
    """Return the annotation with the port of a parameter server that has no container to hold it."""
    port, template = server.get("tfPort"), server.get("template")
    is_bare = not _stored_says_port(PS, template) or is_default_server(template, tf_image)
    said = type(port) is int and port != DEFAULT_PORT
    return {PS_PORT: str(port)} if said and is_bare else {}


def _port_noted(job: Object) -> int:
    """Return the port of such an annotation; 0 if there is none or it is not a valid one."""
    noted = mapping(mapping(job.get("metadata")).get("annotations")).get(PS_PORT)
    return int(noted) if isinstance(noted, str) and re.fullmatch("[1-9][0-9]{0,4}", noted) else 0


def _stored_says_port(kind: str, template: Any) -> bool:
    """Apply `says_port` to a stored template; one that cannot be read keeps what it has."""
    has_containers = bool(mapping(mapping(template).get("spec")).get("containers"))
    return has_containers and (not _is_well_formed(template) or says_port(kind, template))


def _alpha_spec(spec: Mapping[str, Any]) -> Object:
    made = _given(spec, "tfImage")
    policy = mapping(spec.get("terminationPolicy"))
    if isinstance(chief := policy.get("chief"), dict) and isinstance(name := chief.get("replicaName", MASTER), str):
        made["terminationPolicy"] = {"chief": {**chief, "replicaName": _alpha_type(name).upper()}}
    if isinstance(board := spec.get("tensorBoard"), dict):
        made["tensorboard"] = {name: value for name, value in board.items() if name != "image"}
    return made


def _alpha_replica(kind: str, replica: Object) -> Object:
    made = {**_given(replica, "replicas"), "tfReplicaType": kind.upper()}
    template = replica.get("template")
    if not isinstance(template, dict):
        return made
    if _is_well_formed(template) and _stored_says_port(kind, template):
        containers, port = without_port(template["spec"]["containers"])
        if port:
            made["tfPort"] = port
            template = {**template, "spec": {**template["spec"], "containers": containers}}
    return {**made, "template": template}


def _alpha_status(given: Any, replicas: Mapping[str, Any]) -> Object:
    """Return v1's status in v1alpha1's shape; empty if it cannot be read."""
    try:
        status = msgspec.convert(given, TFJobStatus)
        specs = {
            CHIEF if kind == MASTER and MASTER not in status.replica_statuses else kind: msgspec.convert(
                _given(one, "replicas"), ReplicaSpec
            )
            for kind, one in replicas.items()
        }
        return v1alpha1_status(TFJob(spec=TFJobSpec(tf_replica_specs=specs), status=status))
    except (msgspec.ValidationError, ValueError):
        return {}


def _by_type(listed: Any, found: list[Spelling]) -> Object | None:
    """Return the replicas by type; None if the list is not one replica of each."""
    if not isinstance(listed, list):
        return None
    made: Object = {}
    inner: list[Spelling] = []
    for one in listed:
        if not isinstance(one, dict):
            return None
        spelt: list[Spelling] = []
        path = [_BY_TYPE, ""]
        replica = _respelt(one, "ReplicaSpec", path, spelt)
        written_type = replica.get("tfReplicaType", MASTER)
        if not isinstance(written_type, str) or (kind := canonical_type(written_type)) in made:
            return None
        path[-1] = kind
        made[kind] = replica
        inner += spelt
    found += inner
    return made


def _ordered(by_type: Iterable[str], order: list[str]) -> list[str]:
    places = {kind: place for place, kind in enumerate(order)}
    return sorted(by_type, key=lambda kind: (places.get(kind, len(places)), kind))


def _respelt(
    given: Mapping[str, Any], kind: str, path: list[str], found: list[Spelling], users_first: bool = False
) -> Object:
    fields = schema()
    return respelt(given, lambda name: fields.own_field(kind, name), path, found, users_first=users_first)


def _given(value: Mapping[str, Any], name: str) -> Object:
    return {name: value[name]} if name in value else {}


def _alpha_type(name: str) -> str:
    canonical = canonical_type(name)
    return MASTER if canonical == CHIEF else canonical


def _is_said(kind: str) -> bool:
    """Return whether v1alpha1 has such a type; a type that no version has is shown unchanged."""
    return kind in TYPES or kind not in REPLICA_TYPES


def _is_well_formed(template: Mapping[str, Any]) -> bool:
    containers = mapping(template.get("spec")).get("containers")
    return (
        isinstance(containers, list)
        and bool(containers)
        and all(isinstance(one, dict) and _are_mappings(one, "ports", "volumeMounts") for one in containers)
    )


def _are_mappings(container: Object, *names: str) -> bool:
    lists = [container[name] for name in names if container.get(name) is not None]
    return all(isinstance(one, list) and all(isinstance(item, dict) for item in one) for one in lists)
