"""The older versions of a TFJob for docs/reference/tfjob.md: fields from their schemas, defaults by trying."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import reference_words as words

from tfjob.api import batch, v1alpha1, v1beta
from tfjob.api.completion import completed
from tfjob.api.defaults import with_defaults
from tfjob.api.older_status import ALPHA2_NAMES, BETA_FIELDS
from tfjob.api.origin import BATCH, TENSORFLOW, TF_JOB
from tfjob.api.pod_schema import pod_definitions
from tfjob.api.tf_job_crd import STATUS
from tfjob.api.types import KIND, WORKER, TFJobSpec

Row = list[str]
Said = Callable[[dict[str, str], str], str]
SCALARS = {"string": "string", "int": "integer", "bool": "boolean", "any": "object"}
IMAGE = "the operator's setting"


def beta(said: Said) -> tuple[str, list[Row], list[Row]]:
    """Title, spec and status of v1beta2, v1beta1 and v1alpha2: v1's words, at the places of these versions."""

    def words_of(path: str) -> str:
        policy = path.replace("spec.", "spec.runPolicy.") if path.split(".")[-1] in v1beta.POLICIES else path
        return said(words.FIELDS, policy)

    replica: dict[str, Any] = {"template": {"spec": {}}}
    manifest = {"apiVersion": v1beta.VERSIONS[0], "kind": KIND, "spec": {"tfReplicaSpecs": {WORKER: replica}}}
    filled = with_defaults(v1beta.to_hub(manifest).job).spec
    defaults = _beta_defaults(filled)
    spec = list(rows(v1beta.schema().definitions, "TFJobSpec", "spec", words_of, defaults))
    status = [[f"`status.{name}`", _otherwise(name), said(words.FIELDS, f"status.{name}")] for name in BETA_FIELDS]
    return ", ".join(f"`{version}`" for version in v1beta.VERSIONS), spec, status


def _beta_defaults(filled: TFJobSpec) -> dict[str, Any]:
    replica = filled.tf_replica_specs[WORKER]
    return {
        "spec.cleanPodPolicy": filled.run_policy.clean_pod_policy,
        "spec.tfReplicaSpecs.TYPE.replicas": replica.replicas,
        "spec.tfReplicaSpecs.TYPE.restartPolicy": replica.restart_policy,
    }


def _otherwise(name: str) -> str:
    return f"`{ALPHA2_NAMES[name]}`" if name in ALPHA2_NAMES else ""


def alpha1(said: Said) -> tuple[str, list[Row], list[Row]]:
    """Title, spec and status of v1alpha1; a default is what an operator writes into a TfJob that does not say it."""
    spec = {"replicaSpecs": [{"template": {}}], "tensorboard": {"logDir": "/logs"}}
    written = completed(spec, words.RANDOM_ID, IMAGE)
    defaults = {f"spec.{name}": written[name] for name in ("RuntimeId", "tfImage")}
    defaults |= {f"spec.replicaSpecs[].{name}": value for name, value in written["replicaSpecs"][0].items()}
    defaults |= {"spec.tensorboard.serviceType": written["tensorboard"]["serviceType"]}
    manifest = {"apiVersion": TENSORFLOW, "kind": TF_JOB, "spec": {"replicaSpecs": [{"template": {"spec": {}}}]}}
    policy = v1alpha1.to_hub(manifest).job.spec.termination_policy
    assert policy is not None
    assert policy.chief is not None
    defaults |= {
        "spec.terminationPolicy.chief.replicaName": policy.chief.replica_name.upper(),
        "spec.terminationPolicy.chief.replicaIndex": policy.chief.replica_index,
    }
    found = rows(
        v1alpha1.schema().definitions, "TFJobSpec", "spec", lambda path: said(words.ALPHA1_FIELDS, path), defaults
    )
    title = ", ".join(f"`{version}` {kind}" for version, kind in v1alpha1.KINDS)
    return title, list(found), list(_status(STATUS, "status"))


def _status(properties: Mapping[str, Any], path: str) -> Iterator[Row]:
    for name, node in properties.items():
        kind = {"array": "list"}.get(node["type"], node["type"])
        yield [f"`{path}.{name}`", kind, node["description"].rstrip(".")]
        inner = node.get("items", {}).get("properties", {})
        yield from _status(inner, f"{path}.{name}[]")


def batch_job(said: Said) -> tuple[str, list[Row], list[Row]]:
    """Title and spec of a Job; what is refused, with what to do instead."""
    defaults = {"spec.backoffLimit": batch.BACKOFF_LIMIT, "spec.parallelism": 1}

    def words_of(path: str) -> str:
        name = path.rpartition(".")[2]
        if name in batch.REFUSED:
            return ": ".join(filter(None, ("refused", batch.REFUSED[name])))
        return said(words.BATCH_FIELDS, path)

    job = {"JobSpec": batch.schema().definitions["JobSpec"]}
    return f"`{BATCH}` {batch.KIND}", list(rows(job, "JobSpec", "spec", words_of, defaults)), []


def rows(
    definitions: Mapping[str, Mapping[str, str]],
    name: str,
    path: str,
    words_of: Callable[[str], str],
    defaults: Mapping[str, Any],
) -> Iterator[Row]:
    """A row a field of a definition, those of its own nested definitions below; a pod's are Kubernetes'."""
    for field, kind in definitions[name].items():
        here = f"{path}.{field}"
        default = defaults.get(here)
        plain = default not in (None, "") and not isinstance(default, dict | list)
        shown = f"`{str(default).lower() if isinstance(default, bool) else default}`" if plain else ""
        yield [f"`{here}`", type_name(kind), shown, words_of(here)]
        inner = kind.strip("[]{}!")
        if inner in definitions and inner not in pod_definitions():
            below = f"{here}[]" if kind.startswith("[") else f"{here}.TYPE" if kind.startswith("{") else here
            yield from rows(definitions, inner, below, words_of, defaults)


def type_name(kind: str) -> str:
    """A schema's word for a type as a reader of YAML would say it."""
    kind = kind.rstrip("!")
    if kind.startswith("["):
        return f"list of {type_name(kind[1:-1])}"
    if kind.startswith("{"):
        return f"map of {type_name(kind[1:-1])}"
    return SCALARS.get(kind, "object")
