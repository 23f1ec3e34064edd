"""Write src/tfjob/api/schema/pod_schema.json: the fields of pod templates and of the kinds that a manifest may contain.

Run it with the version of the Kubernetes client that the file names:

    uv run --no-project --with kubernetes==34.1.0 python tools/pod_schema.py
"""

from __future__ import annotations

import inspect
import json
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

from kubernetes.client import models

TARGET = Path(__file__).parent.parent / "src/tfjob/api/schema/pod_schema.json"
ROOTS = (
    "V1PodTemplateSpec",
    "V1ConfigMap",
    "V1Secret",
    "V1PersistentVolumeClaim",
    "V1Service",
    "V1Job",
    "V1Deployment",
)
UNREAD = {
    "V1PersistentVolumeClaimStatus",
    "V1ServiceStatus",
    "V1JobStatus",
    "V1DeploymentStatus",
    "V1ManagedFieldsEntry",
}
SCALARS = {
    "str": "string",
    "int": "int",
    "bool": "bool",
    "datetime": "string",
    "object": "any",
    "float": "number",
    "port": "int-or-string",
}
QUANTITIES = {
    "ResourceRequirements.limits": "{quantity}",
    "ResourceRequirements.requests": "{quantity}",
    "VolumeResourceRequirements.limits": "{quantity}",
    "VolumeResourceRequirements.requests": "{quantity}",
    "PodSpec.overhead": "{quantity}",
    "EmptyDirVolumeSource.sizeLimit": "quantity",
    "ResourceFieldSelector.divisor": "quantity",
}
INT_OR_STRING = {
    "HTTPGetAction.port",
    "TCPSocketAction.port",
    "ServicePort.targetPort",
    "RollingUpdateDeployment.maxSurge",
    "RollingUpdateDeployment.maxUnavailable",
}
NOT_REQUIRED = {
    "PodSpec.containers",  # the validation of the job reports it with the replica type
    "Container.name",  # the only container of a template needs no name
    "JobSpec.template",
}


def main() -> None:
    definitions: dict[str, dict[str, str]] = {}
    for root in ROOTS:
        define(root, definitions)
    document = {"kubernetes": version("kubernetes"), "definitions": dict(sorted(definitions.items()))}
    TARGET.write_text(json.dumps(document, separators=(",", ":")) + "\n")
    print(f"{TARGET.name}: {len(definitions)} definitions, {TARGET.stat().st_size} bytes")


def define(model: str, definitions: dict[str, dict[str, str]]) -> str:
    """Add the definitions of a model and of the models that it refers to; return its name."""
    name = short(model)
    if name in definitions:
        return name
    fields: dict[str, str] = {}
    definitions[name] = fields
    cls: Any = getattr(models, model)
    required = set(re.findall(r"Invalid value for `(\w+)`, must not be `None`", inspect.getsource(cls)))
    for attribute, field in sorted(cls.attribute_map.items(), key=lambda pair: pair[1]):
        place = f"{name}.{field}"
        openapi_type = "port" if place in INT_OR_STRING else cls.openapi_types[attribute]
        kind = QUANTITIES.get(place) or written(openapi_type, definitions)
        fields[field] = kind + ("!" if attribute in required and place not in NOT_REQUIRED else "")
    return name


def written(kind: str, definitions: dict[str, dict[str, str]]) -> str:
    """Return a type in the notation of the schema: `[T]` for a list, `{T}` for a map, or a scalar or definition."""
    if match := re.fullmatch(r"list\[(.+)\]", kind):
        return f"[{written(match[1], definitions)}]"
    if match := re.fullmatch(r"dict\(str, (.+)\)", kind):
        return "{" + written(match[1], definitions) + "}"
    if kind in SCALARS:
        return SCALARS[kind]
    return "any" if kind in UNREAD else define(kind, definitions)


def short(model: str) -> str:
    """Return the name of a model without the version of its API group."""
    return re.sub(r"^(V1|CoreV1)", "", model)


if __name__ == "__main__":
    main()
