from __future__ import annotations

import pytest

from plan.builders import job, observed, pod
from tfjob.plan.actions import Delete
from tfjob.plan.cleanup import cleanup, everything

ALL = ["worker-0", "worker-1", "ps-0", "ps-1"]


@pytest.mark.parametrize(
    ("policy", "pods", "services"),
    [
        ("None", [], []),
        ("All", ["worker-0", "worker-1", "ps-0"], ALL),
        ("Running", ["ps-0"], ["ps-0", "ps-1"]),
        (None, ["ps-0"], ["ps-0", "ps-1"]),
    ],
)
def test_what_goes_when_a_job_ends(policy: str | None, pods: list[str], services: list[str]) -> None:
    owner = job(worker=2, ps=2, run={"clean_pod_policy": policy})
    standing = [
        pod(owner, "worker-0").exited(0),
        pod(owner, "worker-1").exited(1),
        pod(owner, "ps-0").running(),
        pod(owner, "ps-1").running().deleting(),
    ]
    removed = cleanup(owner, observed(owner, standing))
    assert all(isinstance(action, Delete) for action in removed)
    names = [(action.kind, action.name.removeprefix("mnist-")) for action in removed if isinstance(action, Delete)]
    assert [name for kind, name in names if kind == "Pod"] == pods
    assert sorted(name for kind, name in names if kind == "Service") == sorted(services)


def test_a_service_whose_pod_is_gone_goes_too() -> None:
    owner = job(worker=1)
    assert [action.kind for action in cleanup(owner, observed(owner)) if isinstance(action, Delete)] == ["Service"]


def test_suspending_removes_everything() -> None:
    owner = job(worker=2)
    standing = [pod(owner, "worker-0").exited(0), pod(owner, "worker-1").running()]
    assert len(everything(observed(owner, standing))) == 4
