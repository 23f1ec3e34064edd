"""Stored objects of v1alpha1 and the v1 objects that say the same, as plain values.

The plain form of v1alpha1 has its replicas beside the spec, by type, as v1 has them, and their order: what is noted
about one of them stays true when another one comes or goes. Of the status it has what v1 says, from which all the rest
is made. As in `served_v1beta.py`, nothing is judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tfjob.api.conversion import canonical_type
from tfjob.api.dialect import TENSORFLOW, TF_JOB
from tfjob.api.types import (
    API_VERSION,
    CHIEF,
    DEFAULT_PORT,
    KIND,
    MASTER,
    PS,
    PS_PORT,
    REPLICA_TYPES,
    RUNTIME_ID,
    ReplicaSpec,
    TFJob,
    TFJobSpec,
    TFJobStatus,
)
from tfjob.api.versions import v1alpha1
from tfjob.api.versions.served_v1beta import DETAILS, RUN_POLICY, Object, mapping, with_origin, without_origin
from tfjob.api.versions.spelling import Spelling, respelt, spelt_back
from tfjob.api.versions.status import v1alpha1_status
from tfjob.api.versions.write_back import is_default_server

_BY_TYPE, _ORDER = "replicas", "order"
"""Of the plain form, beside the spec: the replicas by type, and the order of the types."""
_REPLICAS = "replicaSpecs"


def plain(job: Object) -> tuple[Object, list[Spelling]]:
    """An object of v1alpha1 with one spelling of everything, its replicas by type, and what was spelt otherwise."""
    found: list[Spelling] = []
    made = dict(job)
    if isinstance(job.get("spec"), dict):
        # What the operator wrote into a TfJob gives way to what was applied since, in whatever spelling.
        users_first = job["apiVersion"] == TENSORFLOW and v1alpha1.is_completed(job["spec"])
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
    """The object from its plain form."""
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
    """A v1 object with the types that v1alpha1 has: a chief is a master there."""
    replicas = mapping(mapping(job.get("spec")).get("tfReplicaSpecs"))
    found: list[Spelling] = []
    named = respelt(replicas, _alpha_type, ["spec", "tfReplicaSpecs"], found)
    return {**job, "spec": {**job["spec"], "tfReplicaSpecs": named}} if found else job, found


def to_v1(job: Object) -> Object:
    """What v1 says where v1alpha1 says `job`, both in their plain form."""
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
    """What v1alpha1 says where v1 says `job`, both in their plain form."""
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
            if PS in known and (port := _port_noted(job)) and not _says_port(PS, known[PS].get("template")):
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
    if "tfPort" in given and _is_well_formed(template) and _says_port(kind, template):
        template = {**template, "spec": v1alpha1.with_port(template["spec"], given["tfPort"])[0]}
    return {**made, "template": template}


def _noted_port(server: Mapping[str, Any], tf_image: Any) -> Object:
    """The annotation for the port of a parameter server that has no container to say it."""
    port, template = server.get("tfPort"), server.get("template")
    is_bare = not _says_port(PS, template) or is_default_server(template, tf_image)
    said = type(port) is int and port != DEFAULT_PORT
    return {PS_PORT: str(port)} if said and is_bare else {}


def _port_noted(job: Object) -> int:
    """The port of such an annotation; 0 if there is none that could be written so."""
    noted = mapping(mapping(job.get("metadata")).get("annotations")).get(PS_PORT)
    return int(noted) if isinstance(noted, str) and re.fullmatch("[1-9][0-9]{0,4}", noted) else 0


def _says_port(kind: str, template: Any) -> bool:
    """As in a manifest; what cannot be read is left alone."""
    has_containers = bool(mapping(mapping(template).get("spec")).get("containers"))
    return has_containers and (not _is_well_formed(template) or v1alpha1.says_port(kind, template))


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
    if _is_well_formed(template) and _says_port(kind, template):
        containers, port = v1alpha1.without_port(template["spec"]["containers"])
        if port:
            made["tfPort"] = port
            template = {**template, "spec": {**template["spec"], "containers": containers}}
    return {**made, "template": template}


def _alpha_status(given: Any, replicas: Mapping[str, Any]) -> Object:
    """v1's status in v1alpha1's own shape; nothing where it cannot be read."""
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
    """The replicas by type; None if something else than one replica of each stands there."""
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
    schema = v1alpha1.schema()
    return respelt(given, lambda name: schema.own_field(kind, name), path, found, users_first=users_first)


def _given(value: Mapping[str, Any], name: str) -> Object:
    return {name: value[name]} if name in value else {}


def _alpha_type(name: str) -> str:
    canonical = canonical_type(name)
    return MASTER if canonical == CHIEF else canonical


def _is_said(kind: str) -> bool:
    """Whether v1alpha1 has such a type; one that no version has is shown as it is."""
    return kind in v1alpha1.TYPES or kind not in REPLICA_TYPES


def _is_well_formed(template: Mapping[str, Any]) -> bool:
    """Whether the containers of a template and their ports can be read."""
    containers = mapping(template.get("spec")).get("containers")
    return (
        isinstance(containers, list)
        and bool(containers)
        and all(isinstance(one, dict) and _are_mappings(one, "ports", "volumeMounts") for one in containers)
    )


def _are_mappings(container: Object, *names: str) -> bool:
    lists = [container[name] for name in names if container.get(name) is not None]
    return all(isinstance(one, list) and all(isinstance(item, dict) for item in one) for one in lists)
