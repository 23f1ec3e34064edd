"""The CustomResourceDefinition of TFJob, made from the definitions that `tfjob check` judges by and the status's type.

The schema says what is needed for pruning, `kubectl explain` and type errors, and no more: values are judged by
`validation.py`, in the webhook and in the controller, so a manifest that training-operator v1.9 took is not refused
here. A pod template keeps what this schema does not know; elsewhere kubectl refuses an unknown field and the API
server drops it.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from tfjob import __version__
from tfjob.api.schema.checker import LENIENT, Definition, pod_definitions
from tfjob.api.schema.descriptions import FIELDS
from tfjob.api.types import GROUP, KIND, MOST_REPLICAS, TFJobStatus
from tfjob.api.versions import v1

NAME = "tfjobs.kubeflow.org"
OWNER_LABEL = ("app.kubernetes.io/part-of", "tfjob")
"""On everything that an installation consists of."""
RELEASE = "tfjob/release"
"""Annotation: the release of tfjob that the CRD is of."""

Node = dict[str, Any]
Column = tuple[str, str, str]
"""Title, type and path of a column of a list."""

_ANYTHING: Node = {"x-kubernetes-preserve-unknown-fields": True}
_SCALARS: dict[str, Node] = {
    "string": {"type": "string"},
    "int": {"type": "integer"},
    "number": {"type": "number"},
    "bool": {"type": "boolean"},
    "int-or-string": {"x-kubernetes-int-or-string": True},
    # `cpu: 0.5` is a quantity for pods and for `tfjob check`; int-or-string would refuse it.
    "quantity": _ANYTHING,
    "any": _ANYTHING,
}
_PYTHON_SCALARS: dict[Any, Node] = {
    str: {"type": "string"},
    int: {"type": "integer", "format": "int64"},
    bool: {"type": "boolean"},
    datetime: {"type": "string", "format": "date-time"},
}
_SPECIAL: dict[str, Node] = {
    "spec.tfReplicaSpecs.TYPE.replicas": {"format": "int32", "maximum": MOST_REPLICAS},
    "spec.runPolicy.ttlSecondsAfterFinished": {"format": "int32"},
    "spec.runPolicy.activeDeadlineSeconds": {"format": "int64"},
    "spec.runPolicy.backoffLimit": {"format": "int32"},
    "spec.runPolicy.suspend": {"default": False},
    "spec.runPolicy.schedulingPolicy.minAvailable": {"format": "int32"},
    "spec.runPolicy.schedulingPolicy.scheduleTimeoutSeconds": {"format": "int32"},
    "spec.runPolicy.schedulingPolicy.queue": {
        "x-kubernetes-validations": [
            {"rule": "self == oldSelf", "message": "spec.runPolicy.schedulingPolicy.queue is immutable"}
        ]
    },
}
"""As v1.9 has it: clients in other languages read the formats, and Kueue relies on the queue."""
_STATUS_DEFAULTS: dict[str, Node] = {"status.restarts": {"default": 0}}
"""A column would be empty otherwise: a count of none is left out of what we write."""
_LEFT_OVER: dict[str, dict[str, Node]] = {
    "status.replicaStatuses.TYPE": {"labelSelector": _ANYTHING, "selector": {"type": "string"}}
}
"""Fields that v1.9's status has and ours does not write; a manifest that was read from a cluster may hold them."""

AGE: Column = ("Age", "date", ".metadata.creationTimestamp")
_COLUMNS: tuple[Column, ...] = (
    ("State", "string", ".status.state"),
    ("Ready", "string", ".status.ready"),
    ("Restarts", "integer", ".status.restarts"),
    ("Reason", "string", ".status.reason"),
    AGE,
)


def crd() -> dict[str, Any]:
    return definition(GROUP, KIND, "tfj", version("v1", v1_schema(), _COLUMNS, stored=True))


def definition(group: str, kind: str, short_name: str, *versions: Node) -> dict[str, Any]:
    key, value = OWNER_LABEL
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"tfjobs.{group}", "labels": {key: value}, "annotations": {RELEASE: __version__}},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": "tfjobs",
                "singular": "tfjob",
                "shortNames": [short_name],
                # With it, `kubectl get all` lists the job together with its pods.
                "categories": ["all"],
            },
            "versions": list(versions),
        },
    }


def crd_problem(found: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the CRD of a cluster, in one sentence; None if it is the CRD of this release.

    The label alone proves nothing: applying another operator's CRD over ours replaces the schema and keeps the label.
    """
    apply = "run `tfjob operator install`, or apply the output of `tfjob operator manifests --crd-only`"
    versions = {version.get("name"): version for version in found.get("spec", {}).get("versions", [])}
    stored = versions.get("v1", {})
    if not (stored.get("served") and stored.get("storage")):
        return f"the CRD {NAME} does not serve and store v1; {apply}"
    if dropped := _dropped(stored.get("schema", {}).get("openAPIV3Schema", {})):
        return f"the CRD {NAME} belongs to another operator: it drops {', '.join(dropped)}; {apply}"
    release = found.get("metadata", {}).get("annotations", {}).get(RELEASE)
    if release != __version__:
        return f"the CRD {NAME} is from tfjob {release or '(unknown release)'}, but this is {__version__}; {apply}"
    return None


def _dropped(schema: Mapping[str, Any]) -> list[str]:
    """Return the first few of our fields that a schema lacks."""
    given = schema.get("properties", {})
    wanted = {"status": status_node()["properties"], "spec": v1.DEFINITIONS["TFJobSpec"]}
    dropped = [
        f"{part}.{name}"
        for part in wanted
        for name in wanted[part]
        if name not in given.get(part, {}).get("properties", {})
    ]
    return [*dropped[:3], "and others"] if len(dropped) > 3 else dropped


def v1_schema() -> dict[str, Any]:
    spec = SpecNodes({**pod_definitions(), **v1.DEFINITIONS}).node("TFJobSpec", "spec")
    return job_schema({**spec, "required": ["tfReplicaSpecs"]}, status_node())


def job_schema(spec: Node, status: Node) -> dict[str, Any]:
    return {
        "type": "object",
        "description": "TFJob is a TensorFlow training job: replicas of several types that work together.",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": {**spec, "description": "Desired state of the job."},
            "status": {**status, "description": "Observed state of the job. Written by the operator."},
        },
    }


def status_node() -> Node:
    return _type_node(TFJobStatus, "status")


def version(name: str, schema: Node, columns: Iterable[Column], *, stored: bool) -> dict[str, Any]:
    return {
        "name": name,
        "served": True,
        "storage": stored,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [{"name": title, "type": kind, "jsonPath": path} for title, kind, path in columns],
        "schema": {"openAPIV3Schema": schema},
    }


class SpecNodes:
    """Writes types of the definitions' language as nodes of a structural schema.

    `moved` says where v1 has what another version has at a path: what is known of a field is known by its path in v1.
    """

    def __init__(self, definitions: Mapping[str, Definition], moved: Mapping[str, str] | None = None) -> None:
        self.definitions = definitions
        self.moved = moved or {}

    def node(self, kind: str, path: str, *, lenient: bool = False) -> Node:
        """Return the node of a type at a path of v1's TFJob; below a lenient one, unknown fields are kept."""
        path = self.moved.get(path, path)
        return {**self._plain(kind, path, lenient), **_described(path), **_SPECIAL.get(path, {})}

    def _plain(self, kind: str, path: str, lenient: bool) -> Node:
        if kind.startswith("["):
            return {"type": "array", "items": self.node(kind[1:-1], f"{path}[]", lenient=lenient)}
        if kind.startswith("{"):
            return {"type": "object", "additionalProperties": self.node(kind[1:-1], f"{path}.TYPE", lenient=lenient)}
        if kind in self.definitions:
            return self._fields(kind, path, lenient or kind in LENIENT)
        return dict(_SCALARS[kind])

    def _fields(self, kind: str, path: str, lenient: bool) -> Node:
        fields = self.definitions[kind]
        node: Node = {
            "type": "object",
            "properties": {
                name: self.node(written.removesuffix("!"), f"{path}.{name}", lenient=lenient)
                for name, written in fields.items()
            },
        }
        if required := [name for name, written in fields.items() if written.endswith("!")]:
            node["required"] = required
        return {**node, **_ANYTHING} if lenient else node


def _type_node(hint: Any, path: str) -> Node:
    arguments = [argument for argument in get_args(hint) if argument is not type(None)]
    if get_origin(hint) in (Union, types.UnionType):
        return _type_node(arguments[0], path)
    if get_origin(hint) is list:
        items = _type_node(arguments[0], path)
        node: Node = {"type": "array", "items": {key: value for key, value in items.items() if key != "description"}}
    elif get_origin(hint) is dict:
        node = {"type": "object", "additionalProperties": _type_node(arguments[1], f"{path}.TYPE")}
    elif isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        node = _struct_node(hint, path)
    else:
        node = dict(_PYTHON_SCALARS[hint])
    return {**node, **_described(path), **_STATUS_DEFAULTS.get(path, {})}


def _struct_node(struct: type[msgspec.Struct], path: str) -> Node:
    hints = get_type_hints(struct)
    fields = msgspec.structs.fields(struct)
    properties = {field.encode_name: _type_node(hints[field.name], f"{path}.{field.encode_name}") for field in fields}
    properties |= _LEFT_OVER.get(path, {})
    node: Node = {"type": "object", "properties": properties}
    if required := [field.encode_name for field in fields if field.required]:
        node["required"] = required
    return node


def _described(path: str) -> Node:
    return {"description": FIELDS[path].replace("`", "")} if path in FIELDS else {}
