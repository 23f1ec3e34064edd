"""Change the numbers of replicas of a job."""

from __future__ import annotations

import pytest

from support.golden import Wording
from support.plan.builders import job
from tfjob.api.objects import Deployment
from tfjob.api.types import TFJob
from tfjob.jobs.scale import InvalidScale, scaled


def test_a_job_is_scaled_by_types_in_any_case() -> None:
    found = scaled(job(worker=2, ps=1), {"worker": 4, "PS": 2})
    assert isinstance(found, TFJob)
    assert {name: spec.replicas for name, spec in found.spec.tf_replica_specs.items()} == {"Worker": 4, "PS": 2}


@pytest.mark.parametrize(
    ("counts", "keyword"),
    [
        ({"woker": 2}, "worker"),
        ({"boss": 2}, "chief, worker"),
        ({"worker": -1}, ""),
        ({"chief": 0, "worker": 0}, "suspend"),
    ],
)
def test_an_impossible_number_is_rejected(counts: dict[str, int], keyword: str, wording: Wording) -> None:
    with pytest.raises(InvalidScale) as found:
        scaled(job(chief=1, worker=1), counts)
    assert keyword in found.value.hint
    wording(found.value.message, found.value.hint)


def test_a_deployment_is_scaled_by_its_replicas() -> None:
    found = scaled(Deployment(spec={"replicas": 1, "paused": True}), {"replicas": 3})
    assert found.spec == {"replicas": 3, "paused": True}
    with pytest.raises(InvalidScale, match="is a Deployment") as raised:
        scaled(found, {"worker": 2})
    assert raised.value.hint == "Use replicas=2."
