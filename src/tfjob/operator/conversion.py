"""The answer to a ConversionReview: jobs in the version that the API server asks for.

It depends on nothing but the review, so every replica of the operator gives it, whoever leads.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from tfjob.api.served import converted

logger = logging.getLogger("tfjob.operator.conversion")

Object = dict[str, Any]


def answer(review: Mapping[str, Any]) -> Object:
    """The ConversionReview that answers one: all objects in their order, or why there are none."""
    request: Mapping[str, Any] = review.get("request") or {}
    response: Object = {"uid": request.get("uid", "")}
    try:
        wanted = request["desiredAPIVersion"]
        response["convertedObjects"] = [converted(one, wanted) for one in request.get("objects") or ()]
        response["result"] = {"status": "Success"}
    except Exception as error:
        # Whatever it is, the API server must hear of it, and other reviews go on.
        logger.exception("a conversion failed")
        response["convertedObjects"] = []
        response["result"] = {"status": "Failure", "message": f"tf-job-operator: {type(error).__name__}: {error}"}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": response}
