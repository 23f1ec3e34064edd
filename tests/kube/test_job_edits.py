"""What an edit of a job sends."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from plan.builders import job
from tfjob.api.types import TFJob
from tfjob.cli.commands.stop import scaled
from tfjob.kube.client.patches import difference
from tfjob.kube.jobs.jobs import Edit
from tfjob.plan.policy.suspension import resumed, suspended

SUSPENDED = suspended(job(worker=2), "Stopped")


@pytest.mark.parametrize(
    ("old", "edit", "patch"),
    [
        (
            job(worker=2),
            lambda one: suspended(one, "Stopped"),
            {
                "metadata": {"annotations": {"tfjob/suspend-reason": "Stopped"}},
                "spec": {"runPolicy": {"suspend": True}},
            },
        ),
        (
            SUSPENDED,
            resumed,
            {
                "metadata": {"annotations": {"tfjob/suspend-reason": None}},
                "spec": {"runPolicy": {"suspend": None}},
            },
        ),
        (
            job(worker=2),
            lambda one: scaled(one, ("worker=3",)),
            {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 3}}}},
        ),
        (job(worker=2), lambda one: one, {}),
    ],
    ids=["suspend", "resume", "scale", "nothing"],
)
def test_only_what_differs_is_sent(old: TFJob, edit: Edit, patch: dict[str, Any]) -> None:
    assert difference(msgspec.to_builtins(old), msgspec.to_builtins(edit(old))) == patch


@pytest.mark.parametrize(("whole", "patch"), [(False, {"a": {"b": None}}), (True, {"a": None})])
def test_an_object_that_went_keeps_what_we_do_not_know_of_unless_all_of_it_is_to_go(
    whole: bool, patch: dict[str, Any]
) -> None:
    assert difference({"a": {"b": 1}}, {}, whole=whole) == patch


def test_a_field_that_went_is_sent_as_null_and_a_list_as_a_whole() -> None:
    assert difference({"a": 1, "b": [1], "c": {"d": 1}}, {"b": [1, 2], "c": {}}) == {
        "a": None,
        "b": [1, 2],
        "c": {"d": None},
    }
