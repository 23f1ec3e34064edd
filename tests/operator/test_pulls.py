"""An image that does not come: named when waiting is pointless, and not before."""

from __future__ import annotations

from typing import Any

import pytest

from tfjob.operator.selftest.self_test import PULL_SECONDS, Pulls, pods_starting

IMAGE = "registry.example/sample:1"


def pod(reason: str | None, message: str = "", name: str = "master") -> dict[str, Any]:
    """A pod whose container waits for a reason, or runs."""
    state = {"waiting": {"reason": reason, "message": message}} if reason else {"running": {}}
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "tensorflow", "image": IMAGE}]},
        "status": {"containerStatuses": [{"name": "tensorflow", "image": "", "state": state}]},
    }


NEW = {"metadata": {"name": "new"}, "spec": {"containers": []}}


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"])
def test_an_image_that_cannot_be_pulled_is_named_with_what_the_kubelet_says(reason: str) -> None:
    pulls = Pulls()
    assert pulls.failure([pod(reason, "not found")], 0) is None
    assert pulls.failure([pod(reason, "not found")], PULL_SECONDS - 1) is None
    assert pulls.failure([pod(reason, "not found")], PULL_SECONDS) == f"image {IMAGE} cannot be pulled: not found"


def test_an_image_that_came_after_all_is_no_failure() -> None:
    pulls = Pulls()
    pulls.failure([pod("ErrImagePull")], 0)
    assert pulls.failure([pod(None)], 30) is None
    assert pulls.failure([pod("ErrImagePull")], PULL_SECONDS) is None, "a pull that failed anew"


def test_a_pull_that_takes_long_is_shown_and_no_failure() -> None:
    pulls, pods = Pulls(), [NEW, pod("ContainerCreating"), pod(None, name="worker")]
    assert pulls.failure(pods, 0) is None
    assert pulls.failure(pods, 10 * PULL_SECONDS) is None
    assert pods_starting(pods) == f"master (image {IMAGE})"
    assert pods_starting([pod(None)]) == ""
