from __future__ import annotations

import pytest

from plan.builders import job, observed, pod
from tfjob.api.objects import ContainerRunning, ContainerState, ContainerStatus, ContainerTerminated, Pod, PodStatus
from tfjob.plan.actions import Delete
from tfjob.plan.facts.tasks import Observed
from tfjob.plan.policy.cleanup import cleanup, everything

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


@pytest.mark.parametrize(
    ("policy", "sidecar", "kept"),
    [
        pytest.param("Never", None, True, id="all of it has ended"),
        pytest.param("Never", ContainerState(running=ContainerRunning()), False, id="a sidecar still runs"),
        pytest.param("Always", None, False, id="the kubelet would start it again"),
    ],
)
def test_a_pod_whose_containers_have_ended_is_kept_though_its_phase_is_still_running(
    policy: str, sidecar: ContainerState | None, kept: bool
) -> None:
    """A kubelet reports the end of the containers first; the logs of a finished replica must not go with its pod."""
    owner = job(worker=1)
    ended = ContainerState(terminated=ContainerTerminated(exit_code=0))
    statuses = [ContainerStatus(name="tensorflow", state=ended)]
    if sidecar is not None:
        statuses.append(ContainerStatus(name="sidecar", state=sidecar))
    (service,) = observed(owner).services
    child = Pod(
        metadata=service.metadata,
        spec={"restartPolicy": policy},
        status=PodStatus(phase="Running", container_statuses=statuses),
    )
    assert (cleanup(owner, Observed([child])) == []) is kept


def test_a_service_whose_pod_is_gone_goes_too() -> None:
    owner = job(worker=1)
    assert [action.kind for action in cleanup(owner, observed(owner)) if isinstance(action, Delete)] == ["Service"]


def test_suspending_removes_everything() -> None:
    owner = job(worker=2)
    standing = [pod(owner, "worker-0").exited(0), pod(owner, "worker-1").running()]
    assert len(everything(observed(owner, standing))) == 4
