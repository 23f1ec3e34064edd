"""What an edit of a job sends."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from plan.builders import job
from tfjob.api.types import TFJob
from tfjob.cli.lifecycle import scaled
from tfjob.kube.jobs import Edit, difference
from tfjob.plan.suspension import resumed, suspended

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


def test_a_field_that_went_is_sent_as_null_and_a_list_as_a_whole() -> None:
    assert difference({"a": 1, "b": [1], "c": {"d": 1}}, {"b": [1, 2], "c": {}}) == {
        "a": None,
        "b": [1, 2],
        "c": {"d": None},
    }
