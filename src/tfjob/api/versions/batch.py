"""A `batch/v1` Job as a job with one replica type: each completion is a worker."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import Any

import msgspec

from tfjob.api.conversion import METADATA, Conversion, hub_job, left_out, written_metadata
from tfjob.api.dialect import BATCH
from tfjob.api.names import REPLICA_INDEX_LABEL
from tfjob.api.pod_validation import at_least, one_of_problem
from tfjob.api.problems import Path, Problem, problem_at
from tfjob.api.schema.checker import Schema, pod_definitions
from tfjob.api.suggest import one_of
from tfjob.api.types import ORIGIN, PARALLELISM, WORKER, TFJob

KIND = "Job"
BACKOFF_LIMIT = 6

_POLICIES = ("backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished", "suspend")
_HUB_WORKER: Path = ("spec", "tfReplicaSpecs", WORKER)
_CONTROLLER = "kubernetes.io/job-controller"
REFUSED = {
    "podFailurePolicy": "to decide by exit code, use a TFJob with restartPolicy: ExitCode",
    "backoffLimitPerIndex": "use backoffLimit, which counts for the whole job",
    "maxFailedIndexes": "use backoffLimit, which counts for the whole job",
    "successPolicy": "the job succeeds when all completions have succeeded",
    "manualSelector": "",
    "managedBy": f"remove it, or write {_CONTROLLER}",
}
"""The fields of a Job that are not supported, and what to do instead."""
_INDEX = "JOB_COMPLETION_INDEX"


@cache
def schema() -> Schema:
    job = {**pod_definitions()["Job"], "metadata": "Metadata"}
    return Schema({**pod_definitions(), "Metadata": METADATA, "Job": job})


def to_hub(manifest: Mapping[str, Any], filled: Collection[Path] = ()) -> Conversion:
    checked = schema().check(manifest, "Job", filled)
    given = checked.value.get("spec", {})
    worker: dict[str, Any] = {"replicas": given.get("completions", given.get("parallelism", 1))}
    if "template" in given:
        worker["template"] = _template(given)
    spec = {
        "tfReplicaSpecs": {WORKER: worker},
        "runPolicy": {"backoffLimit": BACKOFF_LIMIT, **{key: given[key] for key in _POLICIES if key in given}},
        "successPolicy": "AllWorkers",
    }
    noted = {ORIGIN: BATCH, PARALLELISM: str(given.get("parallelism", 1))}
    job = hub_job({**checked.value, "spec": spec}, **noted)
    moved: tuple[tuple[Path, Path], ...] = (
        (_HUB_WORKER, ("spec",)),
        ((*_HUB_WORKER, "replicas"), ("spec", "completions" if "completions" in given else "parallelism")),
        (("metadata", "annotations", PARALLELISM), ("spec", "parallelism")),
        *((("spec", "runPolicy", name), ("spec", name)) for name in _POLICIES),
    )
    return Conversion(job, [*checked.problems, *_problems(given)], moved, checked.renamed)


def _template(spec: Mapping[str, Any]) -> dict[str, Any]:
    template: dict[str, Any] = spec["template"]
    pod = template.get("spec", {})
    if spec.get("completionMode") != "Indexed" or not pod.get("containers"):
        return template
    label = {"fieldRef": {"fieldPath": f"metadata.labels['{REPLICA_INDEX_LABEL}']"}}
    index = {"name": _INDEX, "valueFrom": label}
    containers = [{**one, "env": [index, *one.get("env", [])]} for one in pod["containers"]]
    return {**template, "spec": {**pod, "containers": containers}}


def _problems(spec: Mapping[str, Any]) -> Iterator[Problem]:
    for name, hint in REFUSED.items():
        if spec.get(name) not in (None, False, _CONTROLLER):
            yield Problem(f"spec.{name}", "is not supported", hint)
    yield from one_of_problem(spec.get("completionMode"), ("NonIndexed", "Indexed"), ("spec", "completionMode"))
    yield from at_least(spec, "completions", 0, ("spec",))
    yield from at_least(spec, "parallelism", 0, ("spec",))
    if "template" not in spec:
        yield Problem("spec.template", "is missing")
        return
    path, policies = ("spec", "template", "spec", "restartPolicy"), ("Never", "OnFailure")
    policy = spec["template"].get("spec", {}).get("restartPolicy")
    yield from one_of_problem(policy, policies, path)
    if policy is None:
        yield problem_at(path, "is missing", f"use {one_of(policies)}")


def from_hub(job: TFJob, api_version: str) -> tuple[dict[str, Any], list[Problem]]:
    """Return the job as a batch/v1 Job, and what is lost: a Job has only one set of equal workers."""
    value = msgspec.to_builtins(job)
    types = value["spec"].get("tfReplicaSpecs", {})
    problems = [
        Problem(f"spec.tfReplicaSpecs.{name}", "is left out: a batch/v1 Job has only one replica type")
        for name in types
        if name != WORKER
    ]
    problems += left_out(value["spec"], ("tfReplicaSpecs", "runPolicy", "successPolicy"), _POLICIES, api_version)
    policy = value["spec"].get("runPolicy", {})
    worker = types.get(WORKER, {})
    completions = worker.get("replicas", 1)
    spec: dict[str, Any] = {
        "completions": completions,
        "parallelism": int(job.metadata.annotations.get(PARALLELISM, completions)),
        **{name: policy[name] for name in _POLICIES if name in policy},
    }
    template = worker.get("template", {})
    restart = worker.get("restartPolicy") or template.get("spec", {}).get("restartPolicy", "Never")
    pod = {**template.get("spec", {}), "restartPolicy": restart if restart == "Never" else "OnFailure"}
    spec["template"] = {**template, "spec": pod}
    if restart not in ("Never", "OnFailure"):
        path = f"spec.tfReplicaSpecs.{WORKER}.restartPolicy"
        problems.append(Problem(path, f"{restart} becomes OnFailure", warning=True))
    metadata = written_metadata(job)
    return {"apiVersion": api_version, "kind": KIND, "metadata": metadata, "spec": spec}, problems
