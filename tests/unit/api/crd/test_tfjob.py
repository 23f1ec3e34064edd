"""The CRD obeys the rules of structural schemas and says what the types say."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from support.api.structural_schemas import EITHER, KEEPS, Node, nodes, violations
from support.golden import Wording
from tfjob import __version__
from tfjob.api import types
from tfjob.api.crd.tfjob import NAME, RELEASE, crd, crd_problem, v1_schema

ALL = dict(nodes(v1_schema()))
TEMPLATE = ".spec.tfReplicaSpecs{}.template"


@pytest.mark.parametrize(
    ("node", "broken"),
    [
        ({}, ["has no type"]),
        ({"type": "object", "properties": {}, "additionalProperties": {}}, ["has properties and additionalProperties"]),
        ({"type": "object"}, ["loses all its fields"]),
        ({"type": "array"}, ["is an array of nothing"]),
        ({"type": "object", "properties": {}, "required": ["a"]}, ["requires what it does not have"]),
        ({"type": "string", "nullable": True}, ["has nullable"]),
        ({EITHER: True}, []),
    ],
)
def test_the_check_of_the_rules_finds_what_breaks_them(node: Node, broken: list[str]) -> None:
    assert violations(node) == broken


def test_the_schema_is_structural() -> None:
    """The API server judges it in tests/cluster/operator/install/test_server_crd.py; this one needs no server."""
    root_metadata = ".metadata"  # may only be restricted, never described
    assert {path: found for path, node in ALL.items() if (found := violations(node)) and path != root_metadata} == {}


def test_a_pod_template_keeps_unknown_fields_everywhere_and_nothing_else_does() -> None:
    lenient = (TEMPLATE, ".spec.tensorBoard.volumes[]", ".spec.tensorBoard.volumeMounts[]")
    for path, node in ALL.items():
        if "properties" in node:
            assert node.get(KEEPS, False) == path.startswith(lenient), path


def test_the_spec_has_the_fields_of_the_type_and_each_has_a_description() -> None:
    structs: dict[str, type[msgspec.Struct]] = {
        ".spec": types.TFJobSpec,
        ".spec.tfReplicaSpecs{}": types.ReplicaSpec,
        ".spec.runPolicy": types.RunPolicy,
        ".spec.runPolicy.schedulingPolicy": types.SchedulingPolicy,
        ".spec.tensorBoard": types.TensorBoard,
        ".spec.terminationPolicy.chief": types.ChiefReference,
        ".status": types.TFJobStatus,
        ".status.conditions[]": types.Condition,
        ".status.failure": types.Verdict,
    }
    for path, struct in structs.items():
        properties = ALL[path]["properties"]
        assert set(properties) == {field.encode_name for field in msgspec.structs.fields(struct)}, path
        assert all(node["description"].endswith(".") for node in properties.values()), path


def test_the_template_is_a_pod_template() -> None:
    container = ALL[f"{TEMPLATE}.spec.containers[]"]["properties"]
    assert container["command"] == {"type": "array", "items": {"type": "string"}}
    assert ALL[f"{TEMPLATE}.metadata.labels"]["additionalProperties"] == {"type": "string"}
    assert ALL[f"{TEMPLATE}.spec.containers[].readinessProbe.httpGet.port"] == {EITHER: True}
    assert ALL[f"{TEMPLATE}.spec.volumes[]"]["required"] == ["name"]


def test_a_quantity_may_be_a_number_with_a_point() -> None:
    """`cpu: 0.5` is right in a pod and for `tfjob check`; int-or-string would refuse it."""
    assert ALL[f"{TEMPLATE}.spec.containers[].resources.limits{{}}"] == {KEEPS: True}


def test_what_a_status_of_training_operator_holds_is_not_unknown() -> None:
    assert {"active", "succeeded", "failed", "selector", "labelSelector"} == set(
        ALL[".status.replicaStatuses{}"]["properties"]
    )


def test_plain_kubectl_apply_can_carry_it() -> None:
    """`kubectl apply` keeps a copy in an annotation; 256 KiB are possible there, we stay well below."""
    assert len(msgspec.json.encode(crd())) < 150_000


def test_a_list_shows_state_ready_restarts_reason_and_age() -> None:
    (version,) = crd()["spec"]["versions"]
    assert [column["name"].upper() for column in version["additionalPrinterColumns"]] == [
        "STATE",
        "READY",
        "RESTARTS",
        "REASON",
        "AGE",
    ]
    assert version["subresources"] == {"status": {}}
    assert crd()["spec"]["names"]["shortNames"] == ["tfj"]


def of_somebody_else(found: Node) -> None:
    """Applied over ours: the label stays."""
    properties = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    properties["status"]["properties"] = {"conditions": {}, "replicaStatuses": {}}


def of_another_release(found: Node) -> None:
    found["metadata"]["annotations"][RELEASE] = "0.0.1"


def not_stored(found: Node) -> None:
    found["spec"]["versions"][0]["storage"] = False


@pytest.mark.parametrize(
    ("change", "keyword"),
    [
        (of_somebody_else, "status.state"),
        (of_another_release, "0.0.1"),
        (not_stored, "v1"),
    ],
)
def test_a_crd_that_is_not_of_this_release_is_named_with_what_to_do(
    change: Any, keyword: str, wording: Wording
) -> None:
    found = crd()
    assert crd_problem(found) is None
    change(found)
    problem = crd_problem(found)
    assert problem is not None
    assert keyword in problem
    assert NAME in problem
    assert "tfjob operator install" in problem
    wording(problem.replace(__version__, "VERSION"))
