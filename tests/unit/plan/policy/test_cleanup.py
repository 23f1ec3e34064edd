from __future__ import annotations

import pytest
from msgspec.structs import replace

from support.plan.builders import T0, after, at, begun, created_pods, deleted, job, observed, pod, see
from tfjob.api.objects import (
    ContainerRunning,
    ContainerState,
    ContainerStatus,
    ContainerTerminated,
    Pod,
    PodStatus,
    Service,
)
from tfjob.api.types import TFJob, TFJobStatus
from tfjob.controller.actions import Delete
from tfjob.controller.kind import Observation, Repetition
from tfjob.durations import Durations
from tfjob.plan.policy.cleanup import cleanup, everything, overdue

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
    (service,) = observed(owner).of(Service)
    child = Pod(
        metadata=service.metadata,
        spec={"restartPolicy": policy},
        status=PodStatus(phase="Running", container_statuses=statuses),
    )
    assert (cleanup(owner, Observation({Pod: [child]})) == []) is kept


def test_a_service_whose_pod_is_gone_goes_too() -> None:
    owner = job(worker=1)
    assert [action.kind for action in cleanup(owner, observed(owner)) if isinstance(action, Delete)] == ["Service"]


def test_suspending_removes_everything() -> None:
    owner = job(worker=2)
    standing = [pod(owner, "worker-0").exited(0), pod(owner, "worker-1").running()]
    assert len(everything(observed(owner, standing))) == 4


@pytest.mark.parametrize(
    ("repetitions", "now", "repeated", "next_time"),
    [
        pytest.param(None, 29.9, False, 30, id="not yet"),
        pytest.param(None, 30, True, 90, id="the first time"),
        pytest.param(None, 4000, True, 4060, id="by an operator that comes late"),
        pytest.param((1, 30), 89, False, 90, id="something else woke the job"),
        pytest.param((1, 30), 90, True, 210, id="the second time"),
        pytest.param((2, 90), 210, True, 450, id="the third time"),
        pytest.param((4, 1000), 1300, True, 1600, id="at last every five minutes"),
        pytest.param((99, 1000), 1299, False, 1300, id="for ever"),
    ],
)
def test_when_a_deletion_is_repeated(
    repetitions: tuple[int, float] | None, now: float, repeated: bool, next_time: float
) -> None:
    owner = job(worker=2)
    stuck, staying = pod(owner, "worker-0").exited(1).deleting(), pod(owner, "worker-1").exited(1)
    uid = stuck.pod.metadata.uid
    known = {uid: Repetition(repetitions[0], at(repetitions[1]))} if repetitions else {}
    seen = observed(owner, [stuck, staying], repeated=known)
    actions, times = overdue(seen.of(Pod), seen, at(now), Durations())
    assert actions == ([Delete("Pod", "mnist-worker-0", uid, at(now) - T0)] if repeated else [])
    assert times == [at(next_time)]


def restarting() -> TFJob:
    """A gang that starts again because its worker was killed, while the old pod of the worker does not go."""
    owner = begun(job(chief=1, worker=1))
    return after(owner, see(owner, [pod(owner, "chief-0").running(), pod(owner, "worker-0").exited(137, 5)], 5))


@pytest.mark.parametrize(
    ("owner", "code"),
    [
        pytest.param(restarting(), 137, id="restarting"),
        pytest.param(begun(job(chief=1, worker=1, run={"suspend": True})), 143, id="suspended"),
        pytest.param(begun(job(chief=1, worker=1, run={"clean_pod_policy": "All"})), 0, id="just ended"),
        pytest.param(begun(job(chief=1, worker=1, run={"clean_pod_policy": "None"})), 0, id="ended, pods are kept"),
    ],
)
def test_a_pod_that_must_go_is_deleted_again_when_only_time_passes(owner: TFJob, code: int) -> None:
    chief = [pod(owner, "chief-0").exited(0, 6)] if code == 0 else []
    stuck = pod(owner, "worker-0", attempt=1).exited(code or 143, 6).deleting(6)
    first = see(owner, [*chief, stuck], 7)
    assert "mnist-worker-0" not in deleted(first)
    assert first.again_at == at(36)
    owner = after(owner, first)
    second = see(owner, [*chief, stuck], 36)
    assert deleted(second) == [*(["mnist-chief-0"] if "All" in str(owner.spec.run_policy) else []), "mnist-worker-0"]
    assert second.again_at == at(96)
    assert not created_pods(second)
    repeated = {stuck.pod.metadata.uid: Repetition(1, at(36))}
    third = see(after(owner, second), [*chief, stuck], 37, repeated=repeated)
    assert ("mnist-worker-0" in deleted(third), third.again_at) == (False, at(96))


def test_what_v1_9_finished_is_left_as_it_is_also_if_a_pod_does_not_go() -> None:
    owner = begun(job(worker=1))
    ended = after(owner, see(owner, [pod(owner, "worker-0").exited(0, 5)], 6))
    foreign = replace(
        ended, status=TFJobStatus(conditions=ended.status.conditions, start_time=T0, completion_time=at(6))
    )
    assert see(foreign, [pod(owner, "worker-0").exited(0, 5).deleting(6)], 99).actions == []
