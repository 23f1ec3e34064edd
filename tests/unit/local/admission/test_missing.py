"""The ConfigMaps and Secrets that a job needs and that nothing brings: named before anything starts."""

from __future__ import annotations

from typing import Any

import pytest

from support.golden import Wording
from tfjob.api.types import ReplicaSpec, TFJob, TFJobSpec
from tfjob.local.admission import missing
from tfjob.local.inputs.references import References, brought

AT = "spec.tfReplicaSpecs.Worker.template.spec."
NOTHING = References(config_map=lambda name: None, secret=lambda name: None)
KNOWN = [
    {"kind": "ConfigMap", "metadata": {"name": "here"}, "data": {"text": "a"}, "binaryData": {"bytes": "YQ=="}},
    {"kind": "Secret", "metadata": {"name": "here"}, "data": {"old": "YQ=="}, "stringData": {"new": "a"}},
    {"kind": "Secret", "metadata": {"name": "elsewhere", "namespace": "other"}, "stringData": {"a": "b"}},
]


def variable(source: str, **reference: Any) -> dict[str, Any]:
    return {"containers": [{"name": "tensorflow", "env": [{"name": "A", "valueFrom": {source: reference}}]}]}


def everything(source: str, **reference: Any) -> dict[str, Any]:
    return {"initContainers": [{"name": "first", "envFrom": [{source: reference}]}]}


def volume(source: str, **reference: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "v", source: reference}]}


def found(pod: dict[str, Any], mapped: tuple[str, ...] = (), replicas: int = 1) -> list[tuple[str, str]]:
    worker = ReplicaSpec(replicas=replicas, template={"spec": pod})
    job = TFJob(spec=TFJobSpec(tf_replica_specs={"Worker": worker}))
    problems = missing.problems(job, brought(KNOWN, "default", NOTHING), mapped)
    return [(one.path.removeprefix(AT), one.message) for one in problems]


@pytest.mark.parametrize(
    ("pod", "path", "keyword"),
    [
        (
            variable("secretKeyRef", name="gone", key="a"),
            "containers[0].env[0].valueFrom.secretKeyRef.name",
            "Secret 'gone'",
        ),
        (
            everything("configMapRef", name="gone"),
            "initContainers[0].envFrom[0].configMapRef.name",
            "ConfigMap 'gone'",
        ),
        (volume("secret", secretName="gone"), "volumes[0].secret.secretName", "Secret 'gone'"),
        (volume("secret", secretName="elsewhere"), "volumes[0].secret.secretName", "Secret 'elsewhere'"),
        (
            volume("projected", sources=[{"configMap": {"name": "gone"}}]),
            "volumes[0].projected.sources[0].configMap.name",
            "ConfigMap 'gone'",
        ),
        (
            variable("secretKeyRef", name="here", key="nwe"),
            "containers[0].env[0].valueFrom.secretKeyRef.key",
            "nwe",
        ),
        (
            variable("configMapKeyRef", name="here", key="bytes"),
            "containers[0].env[0].valueFrom.configMapKeyRef.key",
            "bytes",
        ),
        (
            volume("configMap", name="here", items=[{"key": "bytes", "path": "a"}, {"key": "txt", "path": "b"}]),
            "volumes[0].configMap.items[1].key",
            "txt",
        ),
    ],
)
def test_a_missing_object_or_key_is_named_where_it_is_referred_to(
    pod: dict[str, Any], path: str, keyword: str, wording: Wording
) -> None:
    ((where, message),) = found(pod)
    assert (where, keyword in message) == (path, True)
    wording(message)


@pytest.mark.parametrize(
    "pod",
    [
        variable("secretKeyRef", name="here", key="old"),
        variable("secretKeyRef", name="here", key="new"),
        variable("secretKeyRef", name="gone", key="a", optional=True),
        variable("secretKeyRef", name="here", key="gone", optional=True),
        everything("secretRef", name="gone", optional=True),
        volume("configMap", name="gone", optional=True),
        volume("configMap", name="here", items=[{"key": "bytes", "path": "a"}]),
        volume("persistentVolumeClaim", claimName="gone"),
    ],
)
def test_what_is_there_or_optional_or_made_on_first_use_is_not_missing(pod: dict[str, Any]) -> None:
    assert found(pod) == []


def test_a_volume_that_is_mapped_to_a_folder_needs_no_object() -> None:
    assert found(volume("secret", secretName="gone"), mapped=("v",)) == []


def test_a_type_without_replicas_needs_nothing() -> None:
    assert found(volume("secret", secretName="gone"), replicas=0) == []
