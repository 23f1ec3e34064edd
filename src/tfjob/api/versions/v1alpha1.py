"""`kubeflow.org/v1alpha1` TFJob and `tensorflow.org/v1alpha1` TfJob: a list of replicas with a type and a port.

`to_v1` and `from_v1` convert plain values without checking them, as in `v1beta`.

The plain form of an object has the replicas next to the spec, by type as in v1, together with the order of the types.
A note about one type then stays valid when another type is added or removed. The status of the plain form has the
fields of v1; the fields of v1alpha1 are derived from them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

from tfjob.api.conversion import (
    Conversion,
    Spelling,
    canonical_type,
    hub_job,
    left_out,
    respell,
    restore_spelling,
    written_metadata,
)
from tfjob.api.defaults import PS_FOLDER, PS_VOLUME, brings_server, server_container, training_container
from tfjob.api.dialect import TENSORFLOW, TF_JOB
from tfjob.api.problems import Path, Problem, path_text
from tfjob.api.schema.checker import Definition, Schema, pod_definitions
from tfjob.api.suggest import suggestion
from tfjob.api.types import (
    API_VERSION,
    CHIEF,
    CONTAINER_NAME,
    DEFAULT_PORT,
    KIND,
    MASTER,
    ORIGIN,
    PORT_NAME,
    PS,
    PS_PORT,
    REPLICA_TYPES,
    RUNTIME_ID,
    WORKER,
    TFJob,
)
from tfjob.api.versions import v1
from tfjob.api.versions.status import plain_status
from tfjob.api.versions.v1beta import DETAILS, RUN_POLICY, Object, mapping, with_origin, without_origin

KINDS = ((TENSORFLOW, TF_JOB), (TENSORFLOW, KIND), ("kubeflow.org/v1alpha1", KIND))
TYPES = (MASTER, PS, WORKER)
DEFINITIONS: dict[str, Definition] = {
    **v1.DEFINITIONS,
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
}
_BY_TYPE, _ORDER = "replicas", "order"
"""Keys of the plain form in addition to the spec: the replicas by type, and the order of the types."""
_REPLICAS = "replicaSpecs"
LEVELS = 20
"""More levels than the template of a default server has; deeper recursion could overflow the stack."""


@cache
def schema() -> Schema:
    """Return the schema of a manifest. The 2017 operator ignored the case of names, and samples use `replica_specs`."""
    newer = v1.DEFINITIONS["TFJobSpec"].keys() | {"cleanPodPolicy"}
    hints = {
        **{("TFJobSpec", name): f"use apiVersion: {API_VERSION}" for name in newer - DEFINITIONS["TFJobSpec"].keys()},
        ("TFJobSpec", "tfReplicaSpecs"): f"use the list replicaSpecs, or apiVersion: {API_VERSION}",
        ("ReplicaSpec", "restartPolicy"): "in this version, write it in template.spec",
    }
    return Schema(
        {**pod_definitions(), **DEFINITIONS},
        folded=frozenset(DEFINITIONS.keys() - {"TFJob", "Metadata"}),
        aliases={"replica_specs": "replicaSpecs", "tf_replica_type": "tfReplicaType", "tf_port": "tfPort"},
        hints=hints,
    )


def canonical_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored spec with the documented spelling of its fields."""
    return dict(schema().check(without_repeats(spec), "TFJobSpec").value)


def _is_completed(spec: Mapping[str, Any]) -> bool:
    """Return whether an operator has written its defaults into a stored spec."""
    return bool(spec.get("RuntimeId"))


def without_repeats(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored spec with each field once: a field that the user applied again replaces the operator's.

    A field is stored twice if `kubectl apply` spells it differently from the operator, which wrote the defaults.
    """
    return _without_repeats(spec, "TFJobSpec") if _is_completed(spec) else dict(spec)


def _without_repeats(given: Mapping[str, Any], kind: str) -> dict[str, Any]:
    own = {key: schema().own_field(kind, key) for key, item in given.items() if item is not None}
    again = {name for key, name in own.items() if name != key}
    kept = {key: item for key, item in given.items() if key not in again}
    for key, item in kept.items():
        inner = DEFINITIONS[kind].get(own.get(key, ""), "")
        if isinstance(item, dict) and inner in DEFINITIONS:
            kept[key] = _without_repeats(item, inner)
    return kept


def to_hub(manifest: Mapping[str, Any], filled: Collection[Path] = ()) -> Conversion:
    checked = schema().check(manifest, "TFJob", filled)
    replicas: dict[str, Any] = {}
    places: dict[str, Path] = {}
    faults: list[tuple[Path, str, str]] = []
    for index, replica in enumerate(mapping(checked.value.get("spec")).get(_REPLICAS, [])):
        place: Path = ("spec", _REPLICAS, index)
        kind = canonical_type(replica.get("tfReplicaType", MASTER))
        if fault := _type_fault(kind, replica.get("tfReplicaType", MASTER.upper()), kind in replicas):
            faults.append(((*place, "tfReplicaType"), *fault))
        if kind not in replicas:
            replicas[kind], places[kind] = replica, place
    job = hub_job(to_v1({**checked.value, _BY_TYPE: replicas}), **{ORIGIN: manifest["apiVersion"]})
    moved: tuple[tuple[Path, Path], ...] = (
        *((("spec", "tfReplicaSpecs", kind), place) for kind, place in places.items()),
        *((path, (*places[kind], "tfPort")) for kind in replicas for path in _port_paths(job, kind, replicas[kind])),
        (("spec", "tensorBoard"), ("spec", "tensorboard")),
        (("spec", "tfReplicaSpecs"), ("spec", _REPLICAS)),
        (("metadata", "annotations", RUNTIME_ID), ("spec", "RuntimeId")),
    )
    conversion = Conversion(job, checked.problems, moved, checked.renamed)
    for path, message, hint in faults:
        conversion.problems.append(Problem(path_text(conversion.user_path(path)), message, hint))
    return conversion


def _type_fault(kind: str, written: str, is_known: bool) -> tuple[str, str] | None:
    """Return the message and the hint if the type of a replica is wrong."""
    if is_known:
        hint = "give each entry another tfReplicaType (the default is MASTER), or raise replicas"
        return f"{written} is defined twice", hint
    if kind in TYPES:
        return None
    newer = f"{written} needs apiVersion: {API_VERSION}" if kind in REPLICA_TYPES else ""
    return f"unknown replica type '{written}'", newer or suggestion(written, [known.upper() for known in TYPES])


def _port_paths(job: TFJob, kind: str, given: Mapping[str, Any]) -> list[Path]:
    """Return every path of the job that holds the `tfPort` of the replica `given`."""
    template = mapping(job.spec.tf_replica_specs[kind].template)
    if not _takes_port(kind, template):
        return [("metadata", "annotations", PS_PORT)] if kind == PS else []
    if "tfPort" not in given:
        return []
    containers = template["spec"]["containers"]
    training = training_container(template)
    place = ("containers", containers.index(training), "ports", len(training["ports"]) - 1)
    path: Path = ("spec", "tfReplicaSpecs", kind, "template", "spec", *place)
    return [path, (*path, "containerPort")]


def _takes_port(kind: str, template: Mapping[str, Any]) -> bool:
    """Return whether the port belongs into the template: not if it is malformed, nor if our server is added to it."""
    return _is_well_formed(template) and (kind != PS or server_container(template) is not None)


def _with_port(template: Object, number: int) -> Object:
    """Return the template with `tfPort` as the last port of its training container."""
    containers = [dict(container) for container in template["spec"]["containers"]]
    template = {**template, "spec": {**template["spec"], "containers": containers}}
    container = training_container(template)
    others = [port for port in container.get("ports") or () if port.get("name") != PORT_NAME]
    container["ports"] = [*others, {"name": PORT_NAME, "containerPort": number}]
    return template


def from_hub(job: TFJob, api_version: str) -> tuple[dict[str, Any], list[Problem]]:
    value, _ = v1.from_hub(job)
    problems: list[Problem] = []
    replicas: dict[str, Any] = value["spec"].get("tfReplicaSpecs", {})
    for name, replica in replicas.items():
        path = f"spec.tfReplicaSpecs.{name}"
        if name == CHIEF:
            problems.append(Problem(path, "becomes MASTER, which TF_CONFIG calls master", warning=True))
        elif name not in TYPES:
            problems.append(Problem(path, f"is left out: v1alpha1 has no {name}"))
        policy = replica.get("restartPolicy")
        if policy and name in (CHIEF, *TYPES) and "template" in replica:
            known = policy if policy in ("Never", "OnFailure") else "OnFailure"
            if policy != known:
                problems.append(Problem(f"{path}.restartPolicy", f"{policy} becomes OnFailure", warning=True))
            pod = {**replica["template"].get("spec", {}), "restartPolicy": known}
            replica["template"] = {**replica["template"], "spec": pod}
    if WORKER in replicas and "terminationPolicy" not in value["spec"] and not replicas.keys() & {CHIEF, MASTER}:
        # Without a chief, the first worker ends a job of v1. In v1alpha1, the default is the master.
        value["spec"]["terminationPolicy"] = {"chief": {"replicaName": WORKER, "replicaIndex": 0}}
    if "image" in value["spec"].get("tensorBoard", {}):
        problems.append(Problem("spec.tensorBoard.image", "is left out: v1alpha1 uses spec.tfImage"))
    said = ("tfReplicaSpecs", "terminationPolicy", "tensorBoard", "tfImage", "runPolicy")
    problems += left_out(value["spec"], said, (), api_version)
    made = from_v1(plain_v1(value)[0], api_version)
    made[_ORDER] = [_alpha_type(name) for name in replicas]
    return {**written(made, []), "metadata": written_metadata(job, PS_PORT)}, problems


def _without_port(containers: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    """Return the containers without the training port, and its number, which v1alpha1 writes as `tfPort`."""
    number = 0
    kept = []
    for container in containers:
        ports = container.get("ports") or ()
        number = next((port.get("containerPort", 0) for port in ports if port.get("name") == PORT_NAME), number)
        others = [port for port in ports if port.get("name") != PORT_NAME]
        plain = {key: item for key, item in container.items() if key != "ports"}
        kept.append({**plain, "ports": others} if others else plain)
    return kept, number


def plain(job: Object) -> tuple[Object, list[Spelling]]:
    """Return the plain form of an object of v1alpha1, and the spellings that it changes."""
    found: list[Spelling] = []
    made = dict(job)
    if isinstance(job.get("spec"), dict):
        # A field that the user applied again, in any spelling, wins over what the operator wrote into a TfJob.
        users_first = job["apiVersion"] == TENSORFLOW and _is_completed(job["spec"])
        spec = made["spec"] = _respell(job["spec"], "TFJobSpec", ["spec"], found, users_first)
        replicas = _by_type(spec.get(_REPLICAS), found)
        if replicas is not None:
            del spec[_REPLICAS]
            made |= {_BY_TYPE: replicas, _ORDER: list(replicas)}
    if DETAILS in mapping(job.get("status")):
        made["status"] = {DETAILS: job["status"][DETAILS]}
    return made, found


def written(job: Object, spelt: list[Spelling]) -> Object:
    # Rename the innermost fields first: the paths consist of our names.
    inner = [one for one in reversed(spelt) if one[0] != ["spec"]]
    made = dict(restore_spelling(job, inner))
    order, by_type = made.pop(_ORDER, []), made.pop(_BY_TYPE, None)
    kinds = sorted(by_type or (), key=lambda kind: (order.index(kind) if kind in order else len(order), kind))
    if DETAILS in mapping(made.get("status")):
        replicas = {kind: by_type[kind] for kind in kinds}
        made["status"] = {**plain_status(made["status"][DETAILS], replicas), **made["status"]}
    if by_type is not None and isinstance(made.get("spec"), dict):
        made["spec"] = {**made["spec"], _REPLICAS: [by_type[kind] for kind in kinds]}
    return restore_spelling(made, [one for one in spelt if one[0] == ["spec"]])


def plain_v1(job: Object) -> tuple[Object, list[Spelling]]:
    """Return a v1 object with the types of v1alpha1, where a chief is a master."""
    replicas = mapping(mapping(job.get("spec")).get("tfReplicaSpecs"))
    found: list[Spelling] = []
    named = respell(replicas, _alpha_type, ["spec", "tfReplicaSpecs"], found)
    return {**job, "spec": {**job["spec"], "tfReplicaSpecs": named}} if found else job, found


def to_v1(job: Object) -> Object:
    """Convert `job` from v1alpha1 to v1, both in their plain form."""
    spec = mapping(job.get("spec"))
    made = {key: job[key] for key in job if key not in (_ORDER, _BY_TYPE, "spec", "status")}
    noted = _port_annotation(mapping(mapping(job.get(_BY_TYPE)).get(PS)), spec.get("tfImage"))
    if isinstance(spec.get("RuntimeId"), str):
        noted[RUNTIME_ID] = spec["RuntimeId"]
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
            # Types that only v1 has are left out; a type that no version has is shown unchanged.
            newer = set(REPLICA_TYPES) - set(TYPES)
            known = {kind: one for kind, one in replicas.items() if isinstance(one, dict) and kind not in newer}
            made[_BY_TYPE] = {kind: _alpha_replica(kind, one) for kind, one in known.items()}
            made[_ORDER] = sorted(known)
            if PS in known and (port := _annotated_port(job)) and _is_bare(known[PS].get("template")):
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
    if "tfPort" in given and _takes_port(kind, template):
        template = _with_port(template, given["tfPort"])
    return {**made, "template": template}


def _port_annotation(server: Mapping[str, Any], tf_image: Any) -> Object:
    """Return the annotation with the port of a parameter server whose template cannot hold it."""
    port, template = server.get("tfPort"), server.get("template")
    is_noted = _is_bare(template) or is_default_server(template, tf_image)
    return {PS_PORT: str(port)} if is_noted and type(port) is int and port != DEFAULT_PORT else {}


def _annotated_port(job: Object) -> int:
    """Return the port in that annotation; 0 if there is none or it is invalid."""
    noted = mapping(mapping(job.get("metadata")).get("annotations")).get(PS_PORT)
    return int(noted) if isinstance(noted, str) and re.fullmatch("[1-9][0-9]{0,4}", noted) else 0


def _is_bare(template: Any) -> bool:
    """Return whether the template of a parameter server has no server container; a malformed one may have one."""
    containers = mapping(mapping(template).get("spec")).get("containers")
    return not containers or (_is_well_formed(template) and server_container(template) is None)


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
    if _takes_port(kind, template):
        containers, port = _without_port(template["spec"]["containers"])
        if port:
            made["tfPort"] = port
            template = {**template, "spec": {**template["spec"], "containers": containers}}
    return {**made, "template": template}


def _by_type(listed: Any, found: list[Spelling]) -> Object | None:
    """Return the replicas by type; None if the list is malformed or has a type twice."""
    if not isinstance(listed, list):
        return None
    made: Object = {}
    inner: list[Spelling] = []
    for one in listed:
        if not isinstance(one, dict):
            return None
        spelt: list[Spelling] = []
        path = [_BY_TYPE, ""]
        replica = _respell(one, "ReplicaSpec", path, spelt)
        written_type = replica.get("tfReplicaType", MASTER)
        if not isinstance(written_type, str) or (kind := canonical_type(written_type)) in made:
            return None
        path[-1] = kind
        made[kind] = replica
        inner += spelt
    found += inner
    return made


def _respell(
    given: Mapping[str, Any], kind: str, path: list[str], found: list[Spelling], users_first: bool = False
) -> Object:
    """Rename the fields of a definition, and of the definitions in it, to our spelling."""
    made = respell(given, lambda name: schema().own_field(kind, name), path, found, users_first=users_first)
    for name, inner in DEFINITIONS[kind].items():
        if inner in DEFINITIONS and isinstance(made.get(name), dict):
            made[name] = _respell(made[name], inner, [*path, name], found, users_first)
    return made


def _given(value: Mapping[str, Any], name: str) -> Object:
    return {name: value[name]} if name in value else {}


def _alpha_type(name: str) -> str:
    canonical = canonical_type(name)
    return MASTER if canonical == CHIEF else canonical


def _is_well_formed(template: Mapping[str, Any]) -> bool:
    containers = mapping(template.get("spec")).get("containers")
    if not _are_mappings(containers) or not containers:
        return False
    return all(_are_mappings(one.get(name) or []) for one in containers for name in ("ports", "volumeMounts"))


def _are_mappings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


# The defaults that the 2017 operator wrote back into a stored spec.


def completed(spec: Mapping[str, Any], runtime_id: str, tf_image: str) -> dict[str, Any]:
    """Return a spec in the documented spelling with its random id and every default."""
    image = spec.get("tfImage") or tf_image
    filled = {
        **spec,
        "RuntimeId": runtime_id,
        "replicaSpecs": [_completed_replica(replica, image) for replica in spec.get("replicaSpecs") or ()],
        "tfImage": image,
    }
    if board := spec.get("tensorboard"):
        filled["tensorboard"] = {**board, "serviceType": board.get("serviceType") or "ClusterIP"}
    return filled


def default_server(image: str) -> dict[str, Any]:
    """Return the template that marks a default parameter server in a stored spec."""
    mount = {"mountPath": PS_FOLDER, "name": PS_VOLUME}
    container = {"name": CONTAINER_NAME, "image": image, "volumeMounts": [mount]}
    return {"spec": {"containers": [container], "restartPolicy": "OnFailure"}}


def is_default_server(template: Any, tf_image: Any) -> bool:
    """Return whether a template only marks the default server, in a job with this `tfImage`."""
    return bool(_without_empty(template) == default_server(tf_image))


def _without_empty(value: Any, levels: int = LEVELS) -> Any:
    """Return a value without the nulls and empty values that the 2017 operator wrote too, down to `levels`."""
    if isinstance(value, dict) and levels:
        said = {key: _without_empty(item, levels - 1) for key, item in value.items()}
        return {key: item for key, item in said.items() if item not in (None, {}, [], "")}
    return [_without_empty(item, levels - 1) for item in value] if isinstance(value, list) and levels else value


def _completed_replica(replica: Mapping[str, Any], image: str) -> dict[str, Any]:
    kind = canonical_type(replica.get("tfReplicaType") or MASTER)
    template = replica.get("template")
    if kind == PS and template is None:
        template = default_server(image)
    return {
        **replica,
        "IsDefaultPS": kind == PS and not brings_server(template),
        "replicas": 1 if replica.get("replicas") is None else replica["replicas"],
        "template": template,
        "tfPort": replica.get("tfPort") or DEFAULT_PORT,
        "tfReplicaType": kind.upper(),
    }
