from __future__ import annotations

from typing import Any

import pytest

from tfjob.api.schema.checker import Schema, kubernetes_client_version, pod_definitions

SMALL = Schema(
    {
        "Root": {
            "name": "string!",
            "count": "int",
            "ratio": "number",
            "on": "bool",
            "child": "Child",
            "many": "[Child]",
        },
        "Child": {"size": "quantity", "port": "int-or-string", "map": "{string}", "free": "any", "words": "[string]"},
    }
)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"name": "a", "count": 1, "ratio": 2, "on": True, "child": {"size": "1Gi", "port": "http"}}, []),
        ({"name": "a", "count": None, "many": [], "child": {"free": [{"x": None}]}}, []),
        ({}, ["name: is missing"]),
        ({"name": None}, ["name: is missing"]),
        ({"name": 1}, ["name: must be a string, is the integer 1; put it in quotes"]),
        ({"name": "a", "count": True}, ["count: must be an integer, is the boolean true"]),
        ({"name": "a", "count": "7"}, ['count: must be an integer, is the string "7"; remove the quotes: 7']),
        ({"name": "a", "count": 1.5}, ["count: must be an integer, is the number 1.5"]),
        ({"name": "a", "on": "True"}, ['on: must be true or false, is the string "True"; remove the quotes: true']),
        ({"name": "a", "child": []}, ["child: must be a mapping, is a list; remove the '- ' before its fields"]),
        ({"name": "a", "many": {}}, ["many: must be a list, is a mapping; start each item with '- '"]),
        ({"name": "a", "many": [None]}, ["many[0]: must be a mapping, is null; remove the empty item"]),
        ({"name": "a", "cont": 1}, ["cont: unknown field; did you mean count?"]),
        ({"name": "a", "size": 1}, ["size: unknown field; it belongs at child.size"]),
        ({"name": "a", "child": {"ratio": 1}}, ["child.ratio: unknown field; it belongs at ratio"]),
        ({"name": "a", "child": {"zzz": 1}}, ["child.zzz: unknown field"]),
        (
            {"name": "a", "child": {"map": {"k": 1}}},
            ["child.map.k: must be a string, is the integer 1; put it in quotes"],
        ),
        (
            {"name": "a", "child": {"words": "a 'b c'"}},
            ['child.words: must be a list, is the string "a \'b c\'"; write ["a", "b c"]'],
        ),
    ],
)
def test_types_required_and_unknown_fields_are_judged(value: dict[str, Any], said: list[str]) -> None:
    assert [str(problem) for problem in SMALL.check(value, "Root").problems] == said


def test_nulls_and_faults_are_left_out_and_list_items_keep_their_places() -> None:
    value = {"name": 3, "count": None, "extra": 1, "child": {"words": ["a", 2, "c"], "map": {"k": None}}}
    assert SMALL.check(value, "Root").value == {"child": {"words": ["a", "2", "c"], "map": {}}}


def test_a_filled_in_parameter_may_be_a_number_or_a_boolean() -> None:
    value = {"name": "7", "count": "7", "on": "true"}
    checked = SMALL.check(value, "Root", {("name",), ("count",), ("on",)})
    assert checked.problems == []
    assert checked.value == {"name": "7", "count": 7, "on": True}


def test_folded_definitions_take_names_in_any_case_and_aliases() -> None:
    schema = Schema(
        {"Root": {"replicaSpecs": "[Child]"}, "Child": {"tfPort": "int"}},
        folded=frozenset({"Root", "Child"}),
        aliases={"replica_specs": "replicaSpecs"},
    )
    checked = schema.check({"replica_specs": [{"TFPORT": "x"}]}, "Root")
    assert checked.value == {"replicaSpecs": [{}]}
    assert [problem.path for problem in checked.problems] == ["replica_specs[0].TFPORT"]
    twice = schema.check({"replica_specs": [], "replicaSpecs": []}, "Root")
    assert len(twice.problems) == 1


def pod_check(pod: dict[str, Any]) -> list[str]:
    checked = Schema(pod_definitions()).check({"spec": pod}, "PodTemplateSpec")
    return [str(problem) for problem in checked.problems]


def test_an_unknown_pod_field_is_a_warning_and_kept() -> None:
    template = {"spec": {"containers": [{"name": "a", "imagee": "x"}], "fromTheFuture": {"a": None}}}
    checked = Schema(pod_definitions()).check(template, "PodTemplateSpec")
    assert checked.value == template
    assert [str(problem) for problem in checked.problems] == [
        "warning: spec.containers[0].imagee: unknown field; did you mean image?",
        "warning: spec.fromTheFuture: unknown field; it is kept as it is",
    ]


@pytest.mark.parametrize(
    ("pod", "said"),
    [
        (
            {"containers": [{"resources": {"limits": {"cpu": 1, "memory": "1Gi", "x": 0.5}}}]},
            [],
        ),
        (
            {"containers": [{"livenessProbe": {"httpGet": {"port": port}}} for port in ("http", 80)]},
            [],
        ),
        ({"containers": [{"ports": [{"name": "x"}]}]}, ["spec.containers[0].ports[0].containerPort: is missing"]),
        ({"volumes": [{"emptyDir": {}}]}, ["spec.volumes[0].name: is missing"]),
        (
            {"containers": [{"mountPath": "/x"}]},
            [
                "warning: spec.containers[0].mountPath: unknown field; "
                "it belongs at spec.containers[0].volumeMounts[0].mountPath"
            ],
        ),
    ],
)
def test_pod_templates_are_judged_by_kubernetes_own_definitions(pod: dict[str, Any], said: list[str]) -> None:
    assert pod_check(pod) == said


def test_every_type_of_the_pod_definitions_is_defined() -> None:
    scalars = {"string", "int", "number", "bool", "quantity", "int-or-string", "any"}
    definitions = pod_definitions()
    used = {kind.rstrip("!").strip("[]{}") for fields in definitions.values() for kind in fields.values()}
    assert used - scalars <= definitions.keys()
    assert kubernetes_client_version().startswith("34.")
