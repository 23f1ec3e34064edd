"""Answers to reviews. They depend only on the review, so every replica of the operator answers, not only the leader.

To an AdmissionReview: every problem that `tfjob check` finds in a job, each with its path. Stored objects are never
blocked: an object that is being deleted, and an update that does not change the spec, pass, and a fault that the stored
object already has is only a warning.

To a ConversionReview: jobs in the version that the API server asks for.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from tfjob.api.problems import Problem, errors
from tfjob.api.text.shallow import LEVELS
from tfjob.api.types import API_VERSION
from tfjob.api.versions.registry import judge
from tfjob.api.versions.round_trip import OLDER, StrangeVersion, converted

Object = Mapping[str, Any]

logger = logging.getLogger("tfjob.operator.webhook.reviews")

GENERATED = "xxxxx"
"""As long as what an API server adds to `generateName`."""
MANAGED_BY = "spec.runPolicy.managedBy"


def admit(review: Object, *, cut: bool = False) -> dict[str, Any]:
    """Answer an AdmissionReview in its own version. A `cut` one has null for what is nested too deeply."""
    request: Object = review.get("request") or {}
    response = {"uid": request.get("uid", ""), **_verdict(request, problems_of(request, cut=cut))}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


def problems_of(request: Object, *, cut: bool = False) -> list[Problem]:
    new: Object = request.get("object") or {}
    old: Object = request.get("oldObject") or {}
    if request.get("operation") not in ("CREATE", "UPDATE") or _metadata(new).get("deletionTimestamp"):
        return []
    if old and _v1_spec(old) == _v1_spec(new):
        return []
    found = judge(_named(new), stored=bool(old))
    if cut:
        # Which of both objects it was is not known, and what is stored may stay.
        found.insert(0, Problem("spec", f"is nested more than {LEVELS} levels deep", warning=bool(old)))
    if old:
        known = {(problem.path, problem.message) for problem in judge(_named(old))}
        found = [
            replace(problem, warning=problem.warning or (problem.path, problem.message) in known) for problem in found
        ]
        found += _changed_manager(old, new)
    return found


def _verdict(request: Object, problems: list[Problem]) -> dict[str, Any]:
    verdict: dict[str, Any] = {"allowed": not errors(problems)}
    if warnings := [_text(problem) for problem in problems if problem.warning]:
        verdict["warnings"] = warnings
    if faults := errors(problems):
        verdict["status"] = _refusal(request, faults)
    return verdict


def _refusal(request: Object, faults: list[Problem]) -> dict[str, Any]:
    """Return the Status that an API server gives for an invalid object, so that clients show it in the same way."""
    kind: Object = request.get("kind") or {}
    lines = [_text(fault) for fault in faults]
    return {
        "code": 422,
        "reason": "Invalid",
        "message": lines[0] if len(lines) == 1 else "\n* ".join((f"{len(lines)} errors:", *lines)),
        "details": {
            "group": kind.get("group", ""),
            "kind": kind.get("kind", ""),
            "name": request.get("name") or _metadata(request.get("object") or {}).get("name", ""),
            "causes": [
                {"reason": "FieldValueInvalid", "field": fault.path, "message": _sentence(fault)} for fault in faults
            ],
        },
    }


def _changed_manager(old: Object, new: Object) -> list[Problem]:
    """Report a change of a job's controller: both would manage its pods."""
    before, after = _manager(old), _manager(new)
    if before == after:
        return []
    message = f"cannot be changed from {before or 'unset'} to {after or 'unset'}"
    return [Problem(MANAGED_BY, message, "delete the job and create it again")]


def _manager(job: Object) -> str:
    policy = (_v1_spec(job) or {}).get("runPolicy") or {}
    return str(policy.get("managedBy") or "")


def _v1_spec(job: Object) -> Any:
    """Return the spec that is stored, which includes what an older version has no field for."""
    served = job.get("apiVersion") in OLDER
    return (converted(dict(job), API_VERSION) if served else job).get("spec")


def _named(job: Object) -> Object:
    """Return the job with a name of the final length if the API server has yet to generate one."""
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


def refuse_conversion(review: Object) -> dict[str, Any]:
    """Reject a review whose objects are nested too deeply: shortened objects would not be the same."""
    request: Object = review.get("request") or {}
    return _converted(request.get("uid", ""), [], f"spec is nested more than {LEVELS} levels deep")


def convert(review: Object) -> dict[str, Any]:
    """Answer a ConversionReview: all objects in their order, or the reason why there are none."""
    request: Object = review.get("request") or {}
    objects, fault = [], ""
    try:
        wanted = request["desiredAPIVersion"]
        objects = [converted(one, wanted) for one in request.get("objects") or ()]
    except StrangeVersion as error:
        fault = str(error)
    except Exception as error:
        # Any error is reported to the API server, and must not stop other reviews.
        logger.exception("a conversion failed")
        fault = f"{type(error).__name__}: {error}"
    return _converted(request.get("uid", ""), objects, fault)


def _converted(uid: str, objects: list[dict[str, Any]], fault: str) -> dict[str, Any]:
    result = {"status": "Failure", "message": f"tf-job-operator: {fault}"} if fault else {"status": "Success"}
    response = {"uid": uid, "convertedObjects": objects, "result": result}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": response}
