"""Which replicas get the Keras layer, and with which variables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tfjob.local.inputs.keras_layer import (
    FOLDER,
    REPORT,
    REPORT_FILE,
    SWITCH,
    reported_version,
    with_layer,
    without_layer,
)

POD = Path("/state/pods/mnist-worker-0")


def config(**cluster: list[str]) -> str:
    return json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}})


TWO = config(worker=["a:1", "b:1"])


@pytest.mark.parametrize(
    ("tf_config", "expected"),
    [
        (TWO, True),
        (config(chief=["a:1"], worker=["b:1"]), True),
        (config(master=["a:1"], worker=["b:1"], evaluator=["c:1"]), True),
        (config(worker=["a:1"]), False),
        (config(chief=["a:1"], evaluator=["b:1"]), False),
        (config(chief=["a:1"], worker=["b:1"], ps=["c:1"]), False),
        ("", False),
        ("{", False),
        ("[]", False),
        ('{"cluster": null}', False),
    ],
)
def test_workers_with_peers_get_the_layer(tf_config: str, expected: bool) -> None:
    env = {"TF_CONFIG": tf_config}
    assert (with_layer(env, POD) != env) is expected


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, {"PYTHONPATH": FOLDER}),
        ({"PYTHONPATH": ""}, {"PYTHONPATH": FOLDER}),
        ({"PYTHONPATH": "/mine:/yours"}, {"PYTHONPATH": f"{FOLDER}:/mine:/yours"}),
        ({SWITCH: "1"}, {"PYTHONPATH": FOLDER, SWITCH: "1"}),
    ],
)
def test_the_layer_comes_before_the_folders_of_the_user(given: dict[str, Any], found: dict[str, Any]) -> None:
    rest = {"TF_CONFIG": TWO, REPORT: f"{POD}/keras-layer"}
    assert with_layer({"TF_CONFIG": TWO, **given}, POD) == {**rest, **found}


def test_a_variable_turns_the_layer_off() -> None:
    env = {"TF_CONFIG": TWO, SWITCH: "0", "PYTHONPATH": "/mine"}
    assert with_layer(env, POD) == env


@pytest.mark.parametrize("given", [{}, {"PYTHONPATH": "/mine"}, {"PYTHONPATH": "/mine:/yours"}])
def test_fork_servers_start_without_the_layer(given: dict[str, str]) -> None:
    env = {"TF_CONFIG": TWO, **given}
    assert without_layer(with_layer(env, POD)) == env
    assert without_layer(env) == env


def test_the_layer_is_one_file() -> None:
    """Its folder is on the path of users' programs, so that another module there could hide one of theirs."""
    assert [path.name for path in Path(FOLDER).iterdir() if path.name != "__pycache__"] == ["sitecustomize.py"]


@pytest.mark.parametrize(("written", "version"), [(None, ""), ("", ""), ("3.15.1", "3.15.1"), ("3.15.1\n\x1b[2J", "")])
def test_a_report_counts_when_it_contains_a_version(tmp_path: Path, written: str | None, version: str) -> None:
    """The driver may see the file before its content; it must then look again."""
    if written is not None:
        (tmp_path / REPORT_FILE).write_text(written)
    assert reported_version(tmp_path) == version
