"""The fields of an object that the caches keep."""

from __future__ import annotations

import msgspec
import pytest

from tfjob.kube.cache.decode import decode_node, decode_owner, decode_pod

CONTAINER = {"name": "tensorflow", "image": "x:1"}


def test_an_owner_keeps_its_annotations_but_not_what_kubectl_applied() -> None:
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "long", "mine": "kept"}
    encoded = msgspec.json.encode({"metadata": {"name": "j", "annotations": annotations}, "spec": {"a": 1}})
    owner = decode_owner("Server", encoded)
    assert (owner.kind, owner.metadata.annotations, owner.spec) == ("Server", {"mine": "kept"}, b'{"a":1}')


def test_a_cached_pod_has_only_the_fields_that_decisions_read() -> None:
    spec = {"nodeName": "a", "restartPolicy": "Never", "containers": [CONTAINER], "volumes": [{"name": "v"}]}
    pod = decode_pod(msgspec.json.encode({"metadata": {"name": "p"}, "spec": spec, "status": {"phase": "Running"}}))
    assert pod.spec == {"nodeName": "a", "restartPolicy": "Never"}
    assert pod.status.phase == "Running"


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        ([{"type": "Ready", "status": "True"}], True),
        ([{"type": "Ready", "status": "Unknown"}], False),
        ([{"type": "Ready", "status": "False"}, {"type": "MemoryPressure", "status": "False"}], False),
        ([{"type": "MemoryPressure", "status": "False"}], True),
    ],
)
def test_a_node_is_lost_if_it_is_not_ready_or_unknown(conditions: list[dict[str, str]], ready: bool) -> None:
    node = decode_node(msgspec.json.encode({"metadata": {"name": "n"}, "status": {"conditions": conditions}}))
    assert node.ready is ready
