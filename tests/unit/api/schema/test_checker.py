from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import pytest

from support.golden import Wording
from tfjob.api.schema.checker import Schema, pod_definitions

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
    ("value", "paths"),
    [
        ({"name": "a", "count": 1, "ratio": 2, "on": True, "child": {"size": "1Gi", "port": "http"}}, []),
        ({"name": "a", "count": None, "many": [], "child": {"free": [{"x": None}]}}, []),
        ({}, ["name"]),
        ({"name": None}, ["name"]),
        ({"name": 1}, ["name"]),
        ({"name": "a", "count": True}, ["count"]),
        ({"name": "a", "count": "7"}, ["count"]),
        ({"name": "a", "count": 1.5}, ["count"]),
        ({"name": "a", "on": "True"}, ["on"]),
        ({"name": "a", "child": []}, ["child"]),
        ({"name": "a", "many": {}}, ["many"]),
        ({"name": "a", "many": [None]}, ["many[0]"]),
        ({"name": "a", "cont": 1}, ["cont"]),
        ({"name": "a", "size": 1}, ["size"]),
        ({"name": "a", "child": {"ratio": 1}}, ["child.ratio"]),
        ({"name": "a", "child": {"zzz": 1}}, ["child.zzz"]),
        (
            {"name": "a", "child": {"map": {"k": 1}}},
            ["child.map.k"],
        ),
        (
            {"name": "a", "child": {"words": "a 'b c'"}},
            ["child.words"],
        ),
    ],
)
def test_types_required_and_unknown_fields_are_judged(
    value: dict[str, Any], paths: list[str], wording: Wording
) -> None:
    problems = SMALL.check(value, "Root").problems
    assert [problem.path for problem in problems] == paths
    wording(*problems)


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


def test_an_unknown_pod_field_is_a_warning_and_kept(wording: Wording) -> None:
    template = {"spec": {"containers": [{"name": "a", "imagee": "x"}], "fromTheFuture": {"a": None}}}
    checked = Schema(pod_definitions()).check(template, "PodTemplateSpec")
    assert checked.value == template
    assert [(problem.path, problem.warning) for problem in checked.problems] == [
        ("spec.containers[0].imagee", True),
        ("spec.fromTheFuture", True),
    ]
    wording(*checked.problems)


@pytest.mark.parametrize(
    ("pod", "paths"),
    [
        (
            {"containers": [{"resources": {"limits": {"cpu": 1, "memory": "1Gi", "x": 0.5}}}]},
            [],
        ),
        (
            {"containers": [{"livenessProbe": {"httpGet": {"port": port}}} for port in ("http", 80)]},
            [],
        ),
        ({"containers": [{"ports": [{"name": "x"}]}]}, ["spec.containers[0].ports[0].containerPort"]),
        ({"volumes": [{"emptyDir": {}}]}, ["spec.volumes[0].name"]),
        (
            {"containers": [{"mountPath": "/x"}]},
            ["spec.containers[0].mountPath"],
        ),
    ],
)
def test_pod_templates_are_judged_by_kubernetes_own_definitions(
    pod: dict[str, Any], paths: list[str], wording: Wording
) -> None:
    problems = Schema(pod_definitions()).check({"spec": pod}, "PodTemplateSpec").problems
    assert [problem.path for problem in problems] == paths
    wording(*problems)


def test_every_type_of_the_pod_definitions_is_defined() -> None:
    scalars = {"string", "int", "number", "bool", "quantity", "int-or-string", "any"}
    definitions = pod_definitions()
    used = {kind.rstrip("!").strip("[]{}") for fields in definitions.values() for kind in fields.values()}
    assert used - scalars <= definitions.keys()


def test_the_pod_definitions_are_those_of_the_supported_client() -> None:
    written = json.loads((files("tfjob.api.schema") / "pod_schema.json").read_bytes())
    assert written["kubernetes"].startswith("34.")
