"""The answers to reviews. They depend only on the review, so every replica of the operator answers.

The answer to an AdmissionReview has every problem that `tfjob check` finds in a job, each with its path. Stored objects
are never blocked: an object that is being deleted and an update that does not change the spec are allowed, and a
problem that the stored object already has is only a warning.

The answer to a ConversionReview has the jobs in the requested version.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from tfjob.api.problems import Problem, errors
from tfjob.api.types import API_VERSION
from tfjob.api.versions.registry import judge
from tfjob.api.versions.round_trip import OLDER, StrangeVersion, converted

Object = Mapping[str, Any]

logger = logging.getLogger("tfjob.operator.webhook.reviews")

GENERATED = "xxxxx"
"""As long as the suffix that an API server adds to `generateName`."""


def admit(review: Object) -> dict[str, Any]:
    request: Object = review.get("request") or {}
    problems = problems_of(request)
    response: dict[str, Any] = {"uid": request.get("uid", ""), "allowed": not errors(problems)}
    if warnings := [_text(problem) for problem in problems if problem.warning]:
        response["warnings"] = warnings
    if found := errors(problems):
        response["status"] = _rejection(request, found)
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


def problems_of(request: Object) -> list[Problem]:
    new: Object = request.get("object") or {}
    old: Object = request.get("oldObject") or {}
    if request.get("operation") not in ("CREATE", "UPDATE") or _metadata(new).get("deletionTimestamp"):
        return []
    if old and _v1_spec(old) == _v1_spec(new):
        return []
    found = judge(_named(new), stored=bool(old))

    if old:
        known = {(problem.path, problem.message) for problem in judge(_named(old))}
        found = [
            replace(problem, warning=problem.warning or (problem.path, problem.message) in known) for problem in found
        ]
        before, after = _manager(old), _manager(new)
        if before != after:  # both controllers would manage the pods of the job
            message = f"cannot be changed from {before or 'unset'} to {after or 'unset'}"
            found.append(Problem("spec.runPolicy.managedBy", message, "delete the job and create it again"))
    return found


def _rejection(request: Object, problems: list[Problem]) -> dict[str, Any]:
    """Return the Status that an API server gives for an invalid object, so that clients show it in the same way."""
    kind: Object = request.get("kind") or {}
    lines = [_text(problem) for problem in problems]
    return {
        "code": 422,
        "reason": "Invalid",
        "message": lines[0] if len(lines) == 1 else "\n* ".join((f"{len(lines)} errors:", *lines)),
        "details": {
            "group": kind.get("group", ""),
            "kind": kind.get("kind", ""),
            "name": request.get("name") or _metadata(request.get("object") or {}).get("name", ""),
            "causes": [
                {"reason": "FieldValueInvalid", "field": problem.path, "message": _sentence(problem)}
                for problem in problems
            ],
        },
    }


def _manager(job: Object) -> str:
    policy = (_v1_spec(job) or {}).get("runPolicy") or {}
    return str(policy.get("managedBy") or "")


def _v1_spec(job: Object) -> Any:
    """Return the spec as it is stored, which includes fields that an older version does not have."""
    served = job.get("apiVersion") in OLDER
    return (converted(dict(job), API_VERSION) if served else job).get("spec")


def _named(job: Object) -> Object:
    """Return the job with a name; if the API server is still to generate one, a name of the same length."""
    metadata = _metadata(job)
    if metadata.get("name") or not metadata.get("generateName"):
        return job
    return {**job, "metadata": {**metadata, "name": f"{metadata['generateName']}{GENERATED}"}}


def _metadata(job: Object) -> Object:
    return job.get("metadata") or {}


def _text(problem: Problem) -> str:
    return f"{problem.path}: {_sentence(problem)}" if problem.path else _sentence(problem)


def _sentence(problem: Problem) -> str:
    return f"{problem.message}; {problem.hint}" if problem.hint else problem.message


def convert(review: Object) -> dict[str, Any]:
    """Answer a ConversionReview with all objects in their order, or with the reason why they cannot be converted."""
    request: Object = review.get("request") or {}
    objects, fault = [], ""
    try:
        wanted = request["desiredAPIVersion"]
        objects = [converted(one, wanted) for one in request.get("objects") or ()]
    except StrangeVersion as error:
        fault = str(error)
    except Exception as error:
        # Report any error to the API server; it must not stop other reviews.
        logger.exception("a conversion failed")
        fault = f"{type(error).__name__}: {error}"
    result = {"status": "Failure", "message": f"tf-job-operator: {fault}"} if fault else {"status": "Success"}
    response = {"uid": request.get("uid", ""), "convertedObjects": objects, "result": result}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": response}
