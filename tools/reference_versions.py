"""The older versions of a TFJob for docs/reference/tfjob.md, with fields and defaults from the code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import reference_words as words

from tfjob.api.crd.older import STATUS
from tfjob.api.defaults import with_defaults
from tfjob.api.dialect import BATCH, TENSORFLOW, TF_JOB
from tfjob.api.schema.checker import pod_definitions
from tfjob.api.types import KIND, WORKER, TFJobSpec
from tfjob.api.versions import batch, v1alpha1, v1beta
from tfjob.api.versions.status import ALPHA2_NAMES, BETA_FIELDS
from tfjob.api.versions.v1alpha1 import completed
from tfjob.api.versions.v1beta import DETAILS

Row = list[str]
Describe = Callable[[dict[str, str], str], str]
SCALARS = {"string": "string", "int": "integer", "bool": "boolean", "any": "object"}
IMAGE = "the operator's setting"


def beta(describe: Describe, v1_status: Iterable[Row]) -> tuple[str, list[Row], list[Row]]:
    """Return title, spec and status of v1beta2, v1beta1 and v1alpha2, described as in v1."""

    def in_v1(path: str) -> str:
        return path.replace("spec.", "spec.runPolicy.") if path.split(".")[-1] in v1beta.POLICIES else path

    def words_of(path: str) -> str:
        return describe(words.FIELDS, in_v1(path))

    replica: dict[str, Any] = {"template": {"spec": {}}}
    manifest = {"apiVersion": v1beta.VERSIONS[0], "kind": KIND, "spec": {"tfReplicaSpecs": {WORKER: replica}}}
    filled = with_defaults(v1beta.to_hub(manifest).job).spec
    defaults = _beta_defaults(filled)
    found = rows(v1beta.schema().definitions, "TFJobSpec", "spec", words_of, defaults)
    spec = [with_place_in_v1(row, lambda path: f"`{in_v1(path)}`") for row in found]
    status = [[name, kind, _otherwise(name), text] for name, kind, text in v1_status if _field(name) in BETA_FIELDS]
    status.append([f"`status.{DETAILS}`", "object", "", describe(words.BETA_FIELDS, f"status.{DETAILS}")])
    return ", ".join(f"`{version}`" for version in v1beta.VERSIONS), spec, status


def with_place_in_v1(row: Row, place: Callable[[str], str]) -> Row:
    """Add to the row of a field what v1 has in its place."""
    *about, text = row
    return [*about, place(row[0].strip("`")), text]


def _beta_defaults(filled: TFJobSpec) -> dict[str, Any]:
    replica = filled.tf_replica_specs[WORKER]
    return {
        "spec.cleanPodPolicy": filled.run_policy.clean_pod_policy,
        "spec.tfReplicaSpecs.TYPE.replicas": replica.replicas,
        "spec.tfReplicaSpecs.TYPE.restartPolicy": replica.restart_policy,
    }


def _field(path: str) -> str:
    return path.strip("`").split(".")[1].removesuffix("[]")


def _otherwise(path: str) -> str:
    field = _field(path)
    return path.replace(field, ALPHA2_NAMES[field], 1) if field in ALPHA2_NAMES else ""


def alpha1(describe: Describe) -> tuple[str, list[Row], list[Row]]:
    """Return title, spec and status of v1alpha1; the defaults are those that an operator writes into a TfJob."""
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
        v1alpha1.schema().definitions, "TFJobSpec", "spec", lambda path: describe(words.ALPHA1_FIELDS, path), defaults
    )
    title = ", ".join(f"`{version}` {kind}" for version, kind in v1alpha1.KINDS)
    spec_rows = [with_place_in_v1(row, lambda path: describe(words.ALPHA1_IN_V1, path)) for row in found]
    return title, spec_rows, list(_status(STATUS, "status"))


def _status(properties: Mapping[str, Any], path: str) -> Iterator[Row]:
    for name, node in properties.items():
        kind = {"array": "list"}.get(node["type"], node["type"])
        yield [f"`{path}.{name}`", kind, node["description"]]
        inner = node.get("items", {}).get("properties", {})
        yield from _status(inner, f"{path}.{name}[]")


def batch_job(describe: Describe) -> tuple[str, list[Row], list[Row]]:
    """Return title and spec of a Job; for an unsupported field, the row describes what to do instead."""
    defaults = {"spec.backoffLimit": batch.BACKOFF_LIMIT, "spec.parallelism": 1}

    def words_of(path: str) -> str:
        name = path.rpartition(".")[2]
        if name in batch.REFUSED:
            return " ".join(filter(None, ("Not supported.", sentence(batch.REFUSED[name]))))
        return describe(words.BATCH_FIELDS, path)

    job = {"JobSpec": batch.schema().definitions["JobSpec"]}
    return f"`{BATCH}` {batch.KIND}", list(rows(job, "JobSpec", "spec", words_of, defaults)), []


def sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}." if text else ""


def rows(
    definitions: Mapping[str, Mapping[str, str]],
    name: str,
    path: str,
    words_of: Callable[[str], str],
    defaults: Mapping[str, Any],
) -> Iterator[Row]:
    """Yield a row for each field of a definition and of the definitions in it, except those of pods."""
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
    """Return the name of a type for a reader of YAML."""
    kind = kind.rstrip("!")
    if kind.startswith("["):
        return f"list of {type_name(kind[1:-1])}"
    if kind.startswith("{"):
        return f"map of {type_name(kind[1:-1])}"
    return SCALARS.get(kind, "object")
