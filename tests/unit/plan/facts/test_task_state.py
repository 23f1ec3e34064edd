"""What a pod says of its task."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from support.plan.builders import PodBuilder, at, job, observed, pod
from tfjob.api.objects import ContainerState, ContainerStatus, ContainerWaiting
from tfjob.plan.facts.task_state import End, survey


def seen(builder: PodBuilder) -> End | None:
    owner = job(worker=1)
    (view,) = survey(owner, owner.status, observed(owner, [builder]), at(60))
    return view.end


@pytest.mark.parametrize("code", [0, 1, 137])
def test_a_quick_container_has_not_ended_before_its_pod_left_pending(code: int) -> None:
    """The kubelet reports its end first and the pod's phase in a moment; until then clients that go by the phase, as
    v1.9's does, find no logs of a job that is done."""
    builder = pod(job(worker=1), "worker-0").exited(code, 5, phase="Pending")
    assert seen(builder) is None
    for phase in ("Running", "Succeeded", "Failed"):
        end = seen(builder._status(phase=phase))
        assert end is not None
        assert end.exit_code == code


def test_a_container_has_ended_though_another_keeps_its_pod_pending() -> None:
    """Such a phase may last: nobody corrects it in a moment."""
    builder = pod(job(worker=1), "worker-0").exited(0, 5, phase="Pending")
    sidecar = ContainerStatus(name="sidecar", state=ContainerState(waiting=ContainerWaiting(reason="ImagePullBackOff")))
    status = builder.pod.status
    builder.pod = replace(builder.pod, status=replace(status, container_statuses=[*status.container_statuses, sidecar]))
    end = seen(builder)
    assert end is not None
    assert end.succeeded


def test_a_pod_that_is_being_evicted_says_so() -> None:
    """A drained node and a deletion by hand look the same but for the condition."""
    evicted = seen(pod(job(worker=1), "worker-0").disrupted(5, "EvictionByEvictionAPI").deleting(6))
    deleted = seen(pod(job(worker=1), "worker-0").running().deleting(6))
    assert evicted is not None
    assert deleted is not None
    assert (evicted.reason, evicted.message, evicted.exit_code) == ("EvictionByEvictionAPI", "to make room", None)
    assert deleted.reason == "PodDeleted"
    assert evicted.infrastructure
    assert deleted.infrastructure


def test_a_container_that_never_ran_has_no_start() -> None:
    """The kubelet says 1970; taken for a start, everything that ever failed would explain its end."""
    builder = pod(job(worker=1), "worker-0")
    builder.born = datetime.fromtimestamp(0, UTC)
    end = seen(builder.exited(128, 5, "StartError"))
    assert end is not None
    assert end.started is None


def test_a_pod_that_failed_before_its_container_ran_ended_when_it_began_and_not_anew_in_each_pass() -> None:
    """Else its end would never be long enough ago to be final."""
    owner = job(worker=1)
    builder = pod(owner, "worker-0")
    status = replace(builder.pod.status, phase="Failed", reason="SysctlForbidden", start_time=at(3))
    builder.pod = replace(builder.pod, status=status)
    for now in (10, 600):
        (view,) = survey(owner, owner.status, observed(owner, [builder]), at(now))
        assert view.end is not None
        assert (view.end.time, view.end.reason) == (at(3), "SysctlForbidden")
