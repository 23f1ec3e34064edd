"""The fields that Kubernetes knows in a pod template and in the kinds that stand beside a job.

The data is `pod_schema.json`, written by `tools/pod_schema.py` from Kubernetes' own client.
"""

from __future__ import annotations

from functools import cache

import msgspec

from tfjob.api.schema.checker import Definition


class _File(msgspec.Struct, frozen=True):
    kubernetes: str
    definitions: dict[str, dict[str, str]]


@cache
def pod_definitions() -> dict[str, Definition]:
    """Definitions by name, `PodTemplateSpec` and what it needs among them; read once, at the first call."""
    return dict(_file().definitions)


def kubernetes_client_version() -> str:
    """The version of the Kubernetes client that the definitions come from."""
    return _file().kubernetes


@cache
def _file() -> _File:
    from importlib import resources  # costs as much as half of this package: only where it is needed

    data = resources.files("tfjob.api.schema").joinpath("pod_schema.json").read_bytes()
    return msgspec.json.decode(data, type=_File)
