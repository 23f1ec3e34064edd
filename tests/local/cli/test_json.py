"""The contract for scripts: every `-o json` has a version, a kind and exactly the documented fields."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from support.command_line import CommandLine
from support.running import workload_pid
from tfjob.jobs.output import KINDS

LISTS = {
    "ps": ("Job", ("ps", "-a", "-o", "json")),
    "prune": ("Job", ("prune", "--dry-run", "--older", "0s", "-o", "json")),
    "events": ("Event", ("events", "fails", "-o", "json")),
    "volume": ("Claim", ("volume", "ls", "-o", "json")),
    "explain": ("RetryRule", ("explain", "restarts", "-o", "json")),
    "errors": ("KnownError", ("explain", "errors", "-o", "json")),
    "dry run": ("Process", ("run", "--dry-run", "hello.yaml", "-o", "json")),
}
OBJECTS = {
    "status": ("JobStatus", ("status", "fails", "-o", "json")),
    "wait": ("Job", ("wait", "hello", "-o", "json")),
    "doctor": ("Doctor", ("doctor", "-o", "json")),
    "version": ("Version", ("version", "-o", "json")),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_has_a_version_and_the_documented_fields(finished: CommandLine, name: str) -> None:
    kind, words = LISTS[name]
    shape = json.loads(finished(*words))
    assert shape["apiVersion"] == "tfjob/v1"
    assert shape["kind"] == f"{kind}List"
    assert shape["items"]
    for item in shape["items"]:
        assert_documented(kind, item)


@pytest.mark.parametrize("name", OBJECTS)
def test_an_object_has_a_version_and_the_documented_fields(finished: CommandLine, name: str) -> None:
    kind, words = OBJECTS[name]
    shape = json.loads(finished(*words))
    assert (shape.pop("apiVersion"), shape.pop("kind")) == ("tfjob/v1", kind)
    assert_documented(kind, shape)


def test_a_replica_that_runs_here_has_the_pid_of_its_main_process(running: CommandLine, finished: CommandLine) -> None:
    (sleeper,) = json.loads(running("status", "sleeper", "-o", "json"))["replicas"]
    assert sleeper["pid"] == workload_pid(running.home, "sleeper-worker-0")
    over = json.loads(finished("status", "hello", "-o", "json"))["replicas"]
    assert {replica["pid"] for replica in over} == {None}


def test_the_rules_of_tf_jobs_stand_beside_those_of_policies(empty: CommandLine) -> None:
    rules = json.loads(empty("explain", "restarts", "-o", "json"))["tfJobItems"]
    for rule in rules:
        assert_documented("TfJobRetryRule", rule)
    shown = empty("explain", "restarts").rpartition("REPLICA ENDS WITH")[2]
    assert all(rule["cause"] in shown for rule in rules)
    assert len(shown.strip().splitlines()) == 1 + len(rules)


def test_yaml_says_the_same(finished: CommandLine) -> None:
    for words in (("ps", "-a"), ("status", "fails"), ("events", "hello")):
        assert yaml.safe_load(finished(*words, "-o", "yaml")) == json.loads(finished(*words, "-o", "json"))
    lines = [json.loads(line) for line in finished("logs", "hello", "-o", "json").splitlines()]
    assert list(yaml.safe_load_all(finished("logs", "hello", "-o", "yaml"))) == lines


def test_log_lines_are_an_object_each(finished: CommandLine) -> None:
    shapes = [json.loads(line) for line in finished("logs", "hello", "-o", "json").splitlines()]
    assert len(shapes) == 8
    for shape in shapes:
        assert (shape.pop("apiVersion"), shape.pop("kind")) == ("tfjob/v1", "LogLine")
        assert_documented("LogLine", shape)


def test_problems_have_only_documented_fields(empty: CommandLine) -> None:
    shape = json.loads(empty("check", "broken.yaml", "-o", "json", code=2))
    assert shape["kind"] == "ProblemList"
    assert [item["line"] for item in shape["items"]] == [6, 8, 14]
    for item in shape["items"]:
        assert set(item) <= set(KINDS["Problem"].fields)


def test_converted_jobs_are_one_json_document(empty: CommandLine) -> None:
    assert json.loads(empty("convert", "old.yaml", "-o", "json"))["kind"] == "TFJob"
    several = json.loads(empty("convert", "everything.yaml", "-o", "json", "-p", "steps=1"))
    assert [item["kind"] for item in several["items"]] == ["TFJob", "Secret", "ConfigMap"]


def test_the_verdict_of_a_failed_job_is_in_its_failure(finished: CommandLine) -> None:
    failure = json.loads(finished("status", "fails", "-o", "json"))["failure"]
    assert failure["replica"] == "worker-0"
    assert failure["exitCode"] == 3
    assert failure["lastLines"] == ["loading", "ValueError: no data"]


def assert_documented(kind: str, shape: dict[str, Any]) -> None:
    assert list(shape) == list(KINDS[kind].fields)
