"""Stored objects of every version for property tests: sound ones, and ones that no schema would let in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from hypothesis import strategies as st

from tfjob.api.dialect import TENSORFLOW, TF_JOB
from tfjob.api.schema.checker import Definition
from tfjob.api.types import API_VERSION, KIND, ORIGIN, RUNTIME_ID
from tfjob.api.versions import v1
from tfjob.api.versions.round_trip import ALPHA1, OLDER
from tfjob.api.versions.v1beta import POLICIES

Object = dict[str, Any]
VERSIONS = (API_VERSION, *OLDER, TENSORFLOW)
"""A TfJob is a kind of its own; commands edit it in its v1 form."""

words = st.text("abcXYZ-0", max_size=6)
whole = st.integers(0, 3)
anything: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | whole | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=4,
)
ports = st.lists(
    st.fixed_dictionaries(
        {"containerPort": st.integers(1, 9)},
        optional={"name": st.sampled_from(["tfjob-port", "http"]), "protocol": st.just("TCP")},
    ),
    max_size=3,
)
containers = st.fixed_dictionaries(
    {"image": words},
    optional={
        "name": st.sampled_from(["tensorflow", "side"]),
        "ports": ports,
        "volumeMounts": st.lists(st.just({"name": "ps-config-volume", "mountPath": "/ps-server"}), max_size=1)
        | st.none(),
        "resources": anything,
    },
)
pods = st.fixed_dictionaries(
    {},
    optional={
        "containers": st.lists(containers, max_size=2),
        "restartPolicy": st.sampled_from(["Never", "OnFailure"]),
        "schedulerName": words,
        "later": anything,
    },
)
templates = st.fixed_dictionaries({}, optional={"spec": pods, "metadata": anything})
odd_templates = st.fixed_dictionaries(
    {},
    optional={
        "spec": anything
        | st.fixed_dictionaries(
            {"containers": anything | st.lists(anything | st.fixed_dictionaries({"ports": anything}), max_size=2)}
        )
    },
)
TYPES = ("Master", "Worker", "PS", "Chief", "Evaluator", "worker", "MASTER", "Ps", "Eval", "Boss")


def replicas(odd: bool) -> st.SearchStrategy[Any]:
    template = templates | odd_templates if odd else templates
    policy = st.sampled_from(["Never", "ExitCode"])
    return st.fixed_dictionaries({}, optional={"replicas": whole, "restartPolicy": policy, "template": template})


def of_definition(fields: Definition, odd: bool) -> st.SearchStrategy[Any]:
    """An object with some fields of a definition, of about the right type."""
    of_kind = {"string": words, "int": whole, "bool": st.booleans()}
    values = {name: of_kind.get(kind, anything) for name, kind in fields.items()}
    return st.fixed_dictionaries({}, optional={name: anything if odd else value for name, value in values.items()})


def v1_specs(odd: bool, types: Sequence[str]) -> st.SearchStrategy[Any]:
    fields = v1.DEFINITIONS
    sound = st.fixed_dictionaries(
        {},
        optional={
            "tfReplicaSpecs": st.dictionaries(st.sampled_from(types), replicas(odd), max_size=3),
            "runPolicy": of_definition(fields["RunPolicy"], odd),
            "tensorBoard": of_definition(fields["TensorBoard"], odd),
            "terminationPolicy": st.fixed_dictionaries(
                {}, optional={"chief": of_definition(fields["ChiefReference"], odd)}
            ),
            "successPolicy": words,
            "tfImage": words,
        },
    )
    return sound | st.dictionaries(st.sampled_from([*fields["TFJobSpec"]]), anything, max_size=3) if odd else sound


def beta_specs(odd: bool, types: Sequence[str]) -> st.SearchStrategy[Any]:
    several = {"tfReplicaSpecs": st.dictionaries(st.sampled_from(types), replicas(odd), max_size=3)}
    policies = {name: anything if odd else {"string": words, "int": whole}[kind] for name, kind in POLICIES.items()}
    extra = {"unknown": anything, "runPolicy": anything} if odd else {}
    return st.fixed_dictionaries({}, optional={**several, **policies, **extra})


def alpha_specs(odd: bool, types: Sequence[str]) -> st.SearchStrategy[Any]:
    template = templates | odd_templates if odd else templates
    replica = st.fixed_dictionaries(
        {},
        optional={
            "replicas": anything if odd else whole,
            "template": template | st.none() if odd else template,
            "tfPort": st.integers(1, 9) | st.booleans() if odd else st.integers(1, 9),
            "tf_port": st.integers(1, 9),
            "tfReplicaType": st.sampled_from(types) | anything if odd else st.sampled_from(types),
            "IsDefaultPS": st.booleans(),
        },
    )
    unique = None if odd else lambda one: str(one.get("tfReplicaType", "MASTER")).upper()
    listed = st.lists(replica, max_size=3, unique_by=unique)
    return st.fixed_dictionaries(
        {},
        optional={
            "replicaSpecs": listed | anything if odd else listed,
            "replica_specs": listed,
            "RuntimeId": words,
            "runtimeid": words,
            "tfImage": words,
            "schedulerName": words,
            "tensorboard": of_definition(v1.DEFINITIONS["TensorBoard"], odd) | st.none(),
            "terminationPolicy": st.fixed_dictionaries(
                {}, optional={"chief": of_definition(v1.DEFINITIONS["ChiefReference"], odd), "CHIEF": anything}
            ),
        },
    )


def statuses(odd: bool) -> st.SearchStrategy[Any]:
    counts = st.dictionaries(st.sampled_from(["Master", "Worker", "Chief", "PS"]), st.just({"active": 1}), max_size=3)
    sound = st.fixed_dictionaries(
        {},
        optional={
            "state": st.sampled_from(["Running", "Pending", "Succeeded", "Failed"]),
            "reason": words,
            "attempt": whole,
            "conditions": st.just([{"type": "Created", "status": "True"}]),
            "replicaStatuses": counts,
            "completedIndexes": st.just({"Master": "0"}),
            "startTime": st.just("2026-01-02T03:04:05Z"),
        },
    )
    return sound | anything if odd else sound


def older_statuses() -> st.SearchStrategy[Any]:
    """What somebody may have written there, beside what we would."""
    replica = st.fixed_dictionaries({}, optional={"tf_replica_type": st.sampled_from(TYPES) | whole, "state": words})
    fields = {"phase": words, "replicaStatuses": st.lists(replica | whole, max_size=3)}
    return st.fixed_dictionaries({}, optional=fields) | anything


def metadata() -> st.SearchStrategy[Any]:
    keys = st.sampled_from([ORIGIN, RUNTIME_ID, "note"])
    return st.fixed_dictionaries(
        {"name": words, "uid": words},
        optional={
            "annotations": st.dictionaries(keys, words | st.sampled_from(OLDER), min_size=1, max_size=3),
            "managedFields": st.just([{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}]),
            "finalizers": st.just(["foregroundDeletion"]),
        },
    )


def objects(version: str, *, odd: bool, types: Sequence[str] = TYPES) -> st.SearchStrategy[Object]:
    """Objects of one version as an API server stores them."""
    specs = {API_VERSION: v1_specs, ALPHA1: alpha_specs, TENSORFLOW: alpha_specs}.get(version, beta_specs)(odd, types)
    status = statuses(odd) if version == API_VERSION or not odd else statuses(odd) | older_statuses()
    kind = TF_JOB if version == TENSORFLOW else KIND
    whole_status = {} if version != API_VERSION and not odd else {"status": status}
    return st.fixed_dictionaries(
        {"apiVersion": st.just(version), "kind": st.just(kind), "metadata": metadata()},
        optional={"spec": specs | anything if odd else specs, **whole_status},
    ).map(stored)


def stored(value: Object) -> Object:
    """As it comes out of an API server: every mapping in the order of its keys."""
    decoded: Object = msgspec.json.decode(msgspec.json.encode(value, order="sorted"))
    return decoded
