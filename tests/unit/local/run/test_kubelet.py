"""What the kubelet of this machine says about a pod."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from tfjob.api.objects import ContainerStatus, Pod, PodCondition, PodStatus
from tfjob.local.run.kubelet import conditions

NOW = datetime(2030, 1, 1, tzinfo=UTC)
SPEC = {
    "initContainers": [{"name": "setup"}, {"name": "proxy", "restartPolicy": "Always"}],
    "containers": [{"name": "server"}, {"name": "cache"}],
}


def status(phase: str, *ready: str) -> PodStatus:
    return PodStatus(
        phase=phase,
        init_container_statuses=[ContainerStatus(name=name, ready=name in ready) for name in ("setup", "proxy")],
        container_statuses=[ContainerStatus(name=name, ready=name in ready) for name in ("server", "cache")],
    )


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (PodStatus(phase="Pending"), ("False", "ContainersNotReady")),
        (status("Running", "setup", "proxy", "server"), ("False", "ContainersNotReady")),
        (status("Running", "setup", "server", "cache"), ("False", "ContainersNotReady")),
        (status("Running", "proxy", "server", "cache"), ("True", "")),
        (status("Succeeded", "proxy", "server", "cache"), ("False", "PodCompleted")),
        (status("Failed"), ("False", "PodFailed")),
    ],
)
def test_a_pod_is_ready_if_all_its_containers_are(seen: PodStatus, expected: tuple[str, str]) -> None:
    found = {one.type: (one.status, one.reason) for one in conditions(Pod(spec=SPEC), seen, NOW)}
    assert found == {"ContainersReady": expected, "Ready": expected}


def test_a_condition_keeps_its_time_until_it_changes_and_others_stay() -> None:
    other = PodCondition(type="PodScheduled", status="False")
    pod, starting = Pod(spec=SPEC), replace(status("Running", "server"), conditions=[other])
    first = conditions(pod, starting, NOW)
    pod = replace(pod, status=replace(starting, conditions=first))
    again = conditions(pod, starting, NOW + timedelta(seconds=1))
    assert again == first
    assert again[0] == other
    ready = conditions(pod, status("Running", "proxy", "server", "cache"), NOW + timedelta(seconds=2))
    assert {one.last_transition_time for one in ready} == {NOW + timedelta(seconds=2)}
