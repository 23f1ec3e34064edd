"""What a pod refers to by name."""

from __future__ import annotations

from typing import Any

import pytest

from tfjob.api.pod_validation import references
from tfjob.api.problems import path_text


@pytest.mark.parametrize(
    ("pod", "found"),
    [
        (
            {"volumes": [{"persistentVolumeClaim": {"claimName": "data"}}]},
            [("PersistentVolumeClaim", "data", "volumes[0].persistentVolumeClaim.claimName", ())],
        ),
        (
            {"volumes": [{"secret": {"secretName": "s", "items": [{"key": "a", "path": "b"}]}}]},
            [("Secret", "s", "volumes[0].secret.secretName", ("a",))],
        ),
        ({"volumes": [{"configMap": {"name": "c", "optional": True}}]}, []),
        (
            {"volumes": [{"projected": {"sources": [{"secret": {"name": "s"}}, {"configMap": {"name": "c"}}]}}]},
            [
                ("Secret", "s", "volumes[0].projected.sources[0].secret.name", ()),
                ("ConfigMap", "c", "volumes[0].projected.sources[1].configMap.name", ()),
            ],
        ),
        (
            {"containers": [{"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}]},
            [("Secret", "s", "containers[0].env[0].valueFrom.secretKeyRef.name", ("k",))],
        ),
        (
            {"initContainers": [{"envFrom": [{"configMapRef": {"name": "c"}}]}]},
            [("ConfigMap", "c", "initContainers[0].envFrom[0].configMapRef.name", ())],
        ),
        ({"volumes": [{"emptyDir": {}}], "containers": [{"env": [{"name": "A", "value": "b"}]}]}, []),
    ],
)
def test_every_reference_that_must_exist_is_found(pod: dict[str, Any], found: list[Any]) -> None:
    assert [(one.kind, one.name, path_text(one.path), one.keys) for one in references(pod)] == found
