"""References of a job or a Deployment to ConfigMaps and Secrets that do not exist on this machine.

On a cluster, another user may create an object later, so a pod waits for it. On this machine objects only come from the
manifest, or from one that was run before. So a job with a missing object is rejected before it starts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from tfjob.api.pod_validation import CLAIM, CONFIG_MAP, Reference, references
from tfjob.api.problems import Path, Problem, path_text
from tfjob.api.types import TFJob
from tfjob.local.inputs.references import References


def problems(job: TFJob, known: References, mapped: Collection[str] = ()) -> list[Problem]:
    """Return a problem for each reference of a job with defaults that is not `known`; `mapped` volumes are folders."""
    found: list[Problem] = []
    for kind, replica in job.spec.tf_replica_specs.items():
        if replica.replicas == 0 or replica.template is None:
            continue
        at: Path = ("spec", "tfReplicaSpecs", kind, "template", "spec")
        found += pod_problems(replica.template.get("spec") or {}, at, known, mapped)
    return found


def pod_problems(pod: Mapping[str, Any], at: Path, known: References, mapped: Collection[str]) -> Iterator[Problem]:
    for one in references(pod):
        is_mapped = one.path[0] == "volumes" and pod["volumes"][one.path[1]].get("name") in mapped
        if one.kind != CLAIM and not is_mapped:
            yield from _faults(one, pod, known, at)


def _faults(one: Reference, pod: Mapping[str, Any], known: References, at: Path) -> Iterator[Problem]:
    document = known.config_map(one.name) if one.kind == CONFIG_MAP else known.secret(one.name)
    if document is None:
        hint = f"add a document with kind: {one.kind} to the manifest, or set optional: true"
        yield Problem(path_text((*at, *one.path)), f"{one.kind} '{one.name}' does not exist", hint)
        return
    held = _keys(one, document)
    has = f"its keys: {', '.join(sorted(held))}" if held else "it is empty"
    for key in one.keys:
        if key not in held:
            where = path_text((*at, *_key_path(one, key, pod)))
            yield Problem(
                where, f"{one.kind} '{one.name}' has no key '{key}'", f"{has}; add the key, or correct its name"
            )


def _keys(one: Reference, document: Mapping[str, Any]) -> set[str]:
    """Return the keys that a reference can use: as files all keys, as variables only those with text."""
    fields = ["data"] if one.kind == CONFIG_MAP else ["data", "stringData"]
    if one.kind == CONFIG_MAP and one.path[0] == "volumes":
        fields.append("binaryData")
    return {key for name in fields for key in document.get(name) or ()}


def _key_path(one: Reference, key: str, pod: Mapping[str, Any]) -> Path:
    """Return the place where a reference names one of its keys: next to the object's name, or among its items."""
    around = one.path[:-1]
    if one.path[0] != "volumes":
        return (*around, "key")
    source: Any = pod
    for part in around:
        source = source[part]
    index = next(index for index, item in enumerate(source["items"]) if item.get("key") == key)
    return (*around, "items", index, "key")
