"""The CustomResourceDefinition of TFJob, made from the definitions that `tfjob check` uses and the type of the status.

The schema has what pruning, `kubectl explain` and type errors need. The webhook and the controller check values with
`validation`, so the schema accepts every manifest that training-operator v1.9 accepted. Unknown fields are kept in pod
templates; elsewhere kubectl rejects them and the API server drops them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tfjob import __version__
from tfjob.api.schema.checker import LENIENT, Definition, definitions_of, pod_definitions
from tfjob.api.schema.descriptions import FIELDS
from tfjob.api.types import GROUP, KIND, MOST_REPLICAS, TFJobStatus
from tfjob.api.versions import v1

NAME = "tfjobs.kubeflow.org"
OWNER_LABEL = ("app.kubernetes.io/part-of", "tfjob")
"""Label of all objects of an installation."""
RELEASE = "tfjob/release"
"""Annotation: the release of tfjob that wrote the CRD."""

Node = dict[str, Any]
Column = tuple[str, str, str]
"""Title, type and path of a column in the output of `kubectl get`."""

_ANYTHING: Node = {"x-kubernetes-preserve-unknown-fields": True}
_SCALARS: dict[str, Node] = {
    "string": {"type": "string"},
    "int": {"type": "integer"},
    "number": {"type": "number"},
    "bool": {"type": "boolean"},
    "time": {"type": "string", "format": "date-time"},
    "int-or-string": {"x-kubernetes-int-or-string": True},
    # Pods and `tfjob check` accept `cpu: 0.5`; int-or-string would reject it.
    "quantity": _ANYTHING,
    "any": _ANYTHING,
}
_SPECIAL: dict[str, Node] = {
    "spec.tfReplicaSpecs.TYPE.replicas": {"format": "int32", "maximum": MOST_REPLICAS},
    "spec.runPolicy.ttlSecondsAfterFinished": {"format": "int32"},
    "spec.runPolicy.activeDeadlineSeconds": {"format": "int64"},
    "spec.runPolicy.backoffLimit": {"format": "int32"},
    "spec.runPolicy.evaluatorGraceSeconds": {"format": "int32"},
    "spec.runPolicy.suspend": {"default": False},
    "spec.runPolicy.schedulingPolicy.minAvailable": {"format": "int32"},
    "spec.runPolicy.schedulingPolicy.scheduleTimeoutSeconds": {"format": "int32"},
    "spec.runPolicy.schedulingPolicy.queue": {
        "x-kubernetes-validations": [
            {"rule": "self == oldSelf", "message": "spec.runPolicy.schedulingPolicy.queue is immutable"}
        ]
    },
    # We do not write a count of 0, and the column would be empty.
    "status.restarts": {"default": 0},
}
"""As in v1.9: clients in other languages read the formats, and Kueue relies on the queue."""
_STATUS = definitions_of(TFJobStatus)
# Statuses of v1.9 have these fields, and users apply manifests that they have read from a cluster.
_STATUS["ReplicaStatus"] = {**_STATUS["ReplicaStatus"], "labelSelector": "any", "selector": "string"}

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
                # `kubectl get all` lists the job together with its pods.
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
    """Return the first few of our fields that a schema does not have."""
    given = schema.get("properties", {})
    wanted = {"status": status_node()["properties"], "spec": v1.DEFINITIONS["TFJobSpec"]}
    known = {part: given.get(part, {}).get("properties", {}) for part in wanted}
    dropped = [f"{part}.{name}" for part in wanted for name in wanted[part] if name not in known[part]]
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
    return SpecNodes(_STATUS, integers="int64").node("TFJobStatus", "status")


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
    """Writes definitions as nodes of a structural schema; `integers` is the format of integers.

    `moved` maps paths of another version to those of v1, by which fields are described.
    """

    def __init__(
        self, definitions: Mapping[str, Definition], moved: Mapping[str, str] | None = None, integers: str = ""
    ) -> None:
        self.definitions = definitions
        self.moved = moved or {}
        self.scalars = {**_SCALARS, "int": {"type": "integer", "format": integers}} if integers else _SCALARS

    def node(self, kind: str, path: str, *, lenient: bool = False) -> Node:
        """Return the node of a type at a path; in and below a lenient node, unknown fields are kept."""
        path = self.moved.get(path, path)
        described = {"description": FIELDS[path].replace("`", "")} if path in FIELDS else {}
        return {**self._plain(kind, path, lenient), **described, **_SPECIAL.get(path, {})}

    def _plain(self, kind: str, path: str, lenient: bool) -> Node:
        if kind.startswith("["):
            return {"type": "array", "items": self.node(kind[1:-1], f"{path}[]", lenient=lenient)}
        if kind.startswith("{"):
            return {"type": "object", "additionalProperties": self.node(kind[1:-1], f"{path}.TYPE", lenient=lenient)}
        if kind in self.definitions:
            return self._fields(kind, path, lenient or kind in LENIENT)
        return dict(self.scalars[kind])

    def _fields(self, kind: str, path: str, lenient: bool) -> Node:
        fields = self.definitions[kind]
        node: Node = {"type": "object", "properties": {}}
        for name, written in fields.items():
            node["properties"][name] = self.node(written.removesuffix("!"), f"{path}.{name}", lenient=lenient)
        if required := [name for name, written in fields.items() if written.endswith("!")]:
            node["required"] = required
        return {**node, **_ANYTHING} if lenient else node
