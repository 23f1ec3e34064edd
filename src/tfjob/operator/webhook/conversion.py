"""The answer to a ConversionReview: jobs in the version that the API server asks for.

It depends on nothing but the review, so every replica of the operator gives it, whoever leads.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from tfjob.api.text.shallow import LEVELS
from tfjob.api.versions.round_trip import StrangeVersion, converted

logger = logging.getLogger("tfjob.operator.webhook.conversion")

Object = dict[str, Any]


def refusal(review: Mapping[str, Any]) -> Object:
    """The answer to a review whose objects are nested too deeply: without what lies deep they would not be the same."""
    request: Mapping[str, Any] = review.get("request") or {}
    return _answered(request.get("uid", ""), [], f"spec is nested more than {LEVELS} levels deep")


def answer(review: Mapping[str, Any]) -> Object:
    """The ConversionReview that answers one: all objects in their order, or why there are none."""
    request: Mapping[str, Any] = review.get("request") or {}
    objects, fault = [], ""
    try:
        wanted = request["desiredAPIVersion"]
        objects = [converted(one, wanted) for one in request.get("objects") or ()]
    except StrangeVersion as error:
        fault = str(error)
    except Exception as error:
        # Whatever it is, the API server must hear of it, and other reviews go on.
        logger.exception("a conversion failed")
        fault = f"{type(error).__name__}: {error}"
    return _answered(request.get("uid", ""), objects, fault)


def _answered(uid: str, objects: list[Object], fault: str) -> Object:
    result = {"status": "Failure", "message": f"tf-job-operator: {fault}"} if fault else {"status": "Success"}
    response = {"uid": uid, "convertedObjects": objects, "result": result}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": response}
