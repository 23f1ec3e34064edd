"""The objects that may stand beside a job in its manifest: kept as they are, judged for name and shape."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

from tfjob.api.problems import Path, Problem, path_text
from tfjob.api.schema.checker import Schema
from tfjob.api.schema.pod_schema import pod_definitions

KINDS = {("v1", kind) for kind in ("ConfigMap", "Secret", "PersistentVolumeClaim", "Service")}
"""By apiVersion and kind."""

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_KEY = re.compile(r"[-._a-zA-Z0-9]+")


@cache
def _schema() -> Schema:
    legacy = {"clusterName": "any"}
    return Schema(
        {**pod_definitions(), "ObjectMeta": {**pod_definitions()["ObjectMeta"], **legacy}},
    )


def read(manifest: Mapping[str, Any], filled: Collection[Path] = ()) -> tuple[dict[str, Any], list[Problem]]:
    """The object without nulls, and what is wrong with it."""
    kind: str = manifest["kind"]
    checked = _schema().check(manifest, kind, filled)
    value: dict[str, Any] = checked.value
    problems = [*checked.problems, *_name_problems(value.get("metadata", {}))]
    if kind in ("ConfigMap", "Secret"):
        problems += _data_problems(value)
    if kind == "PersistentVolumeClaim" and not value.get("spec", {}).get("accessModes"):
        problems.append(
            Problem("spec.accessModes", "is missing", "write [ReadWriteOnce], or [ReadWriteMany] for several nodes")
        )
    return value, problems


def _name_problems(metadata: Mapping[str, Any]) -> list[Problem]:
    name = metadata.get("name", "")
    if not name:
        return [Problem("metadata.name", "is missing")]
    if len(name) > 253 or not _NAME.fullmatch(name):
        message = f"{name!r} is no object name: lower-case letters, digits, '-' and '.', at most 253 characters"
        return [Problem("metadata.name", message)]
    return []


def _data_problems(value: Mapping[str, Any]) -> list[Problem]:
    encoded = ("data",) if value["kind"] == "Secret" else ("binaryData",)
    problems = []
    for part in ("data", "stringData", "binaryData"):
        for key, text in value.get(part, {}).items():
            path = path_text((part, key))
            if not _KEY.fullmatch(key) or len(key) > 253:
                problems.append(Problem(path, "a key holds only letters, digits, '-', '_' and '.'"))
            if part in encoded and not _is_base64(text):
                hint = "move it to stringData to write it as it is" if value["kind"] == "Secret" else ""
                problems.append(Problem(path, "is not base64", hint))
    return problems


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True
