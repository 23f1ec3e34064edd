"""The answer to an AdmissionReview: every problem that `tfjob check` finds in a job, each with its path.

Stored objects are never blocked: an object that is being deleted, and an update that does not change the spec, pass,
and a fault that the stored object already has is only a warning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfjob.api.problems import Problem, errors
from tfjob.api.text.shallow import LEVELS
from tfjob.api.types import API_VERSION
from tfjob.api.versions.registry import judge
from tfjob.api.versions.round_trip import OLDER, converted

Object = Mapping[str, Any]

GENERATED = "xxxxx"
"""As long as what an API server adds to `generateName`."""
MANAGED_BY = "spec.runPolicy.managedBy"


def answer(review: Object, *, cut: bool = False) -> dict[str, Any]:
    """Answer an AdmissionReview in its own version. A `cut` one has null for what is nested too deeply."""
    request: Object = review.get("request") or {}
    response = {"uid": request.get("uid", ""), **_verdict(request, problems_of(request, cut=cut))}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


def problems_of(request: Object, *, cut: bool = False) -> list[Problem]:
    """Return the problems of the object that a request would store."""
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
        known = {_fault(problem) for problem in judge(_named(old))}
        found = [_warning(problem) if _fault(problem) in known else problem for problem in found]
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
    said = f"cannot be changed: it was {before or 'not set'}, and would be {after or 'not set'}"
    return [Problem(MANAGED_BY, said, "delete the job and create it again")]


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


def _fault(problem: Problem) -> tuple[str, str]:
    return problem.path, problem.message


def _warning(problem: Problem) -> Problem:
    return Problem(problem.path, problem.message, problem.hint, warning=True)


def _text(problem: Problem) -> str:
    return f"{problem.path}: {_sentence(problem)}" if problem.path else _sentence(problem)


def _sentence(problem: Problem) -> str:
    return f"{problem.message}; {problem.hint}" if problem.hint else problem.message
