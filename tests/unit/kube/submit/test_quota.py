"""Whether a job fits what is left of a quota."""

from __future__ import annotations

from typing import Any

import pytest

from support.golden import Wording
from support.plan.builders import job, template
from tfjob.kube.submit.quota import shortages

RESOURCES = {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "2Gi", "nvidia.com/gpu": 1}}


def quota(hard: dict[str, Any], used: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "team"}, "spec": {"hard": hard, **spec}, "status": {"used": used or {}}}


@pytest.mark.parametrize(
    ("hard", "used", "resources"),
    [
        ({"pods": "3"}, {}, []),
        ({"pods": "3"}, {"pods": "1"}, ["pods"]),
        ({"count/pods": 2}, {}, ["count/pods"]),
        ({"cpu": "1"}, {}, ["cpu"]),
        ({"requests.cpu": "1500m"}, {}, []),
        ({"limits.memory": "5Gi"}, {}, ["limits.memory"]),
        (
            {"requests.nvidia.com/gpu": "2"},
            {},
            ["requests.nvidia.com/gpu"],
        ),
        ({"services": 2}, {}, ["services"]),
        ({"persistentvolumeclaims": 0}, {}, []),
    ],
)
def test_what_a_quota_cannot_give_is_said(
    hard: dict[str, Any], used: dict[str, Any], resources: list[str], wording: Wording
) -> None:
    wanted = job(worker=3, pod_template=template(resources=RESOURCES))
    found = [str(one) for one in shortages(wanted, [quota(hard, used)])]
    assert [name in one for name, one in zip(resources, found, strict=True)] == [True] * len(resources)
    wording(*found)


def test_a_quota_that_never_suffices_is_told_from_one_that_is_used_up() -> None:
    full, small = quota({"pods": 3}, {"pods": 3}), quota({"pods": 2})
    assert [one.never for one in shortages(job(worker=3), [full, small])] == [False, True]


def test_a_quota_for_some_pods_only_is_left_to_the_cluster() -> None:
    assert not list(shortages(job(worker=3), [quota({"pods": 1}, scopes=["BestEffort"])]))
