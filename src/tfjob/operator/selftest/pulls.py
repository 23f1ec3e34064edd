"""Images that do not come to their nodes: which of them pods wait for, and when waiting is pointless."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tfjob.plan.policy.verdict import shortened

Pod = Mapping[str, Any]

NOT_PULLED = frozenset({"ErrImageNeverPull", "ErrImagePull", "ImagePullBackOff", "InvalidImageName"})
PATIENCE_SECONDS = 60.0
"""A registry may fail once or twice; the kubelet has asked it three times by then."""


class Pulls:
    """What has been seen of the images of some pods."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def failure(self, pods: Iterable[Pod], now: float) -> str | None:
        """The image that could not be pulled for too long, with what the kubelet says; None while there is hope."""
        failing = {image: message for _, image, reason, message in _waiting(pods) if reason in NOT_PULLED}
        self._since = {image: self._since.get(image, now) for image in failing}
        for image, since in self._since.items():
            if now - since >= PATIENCE_SECONDS:
                return f"image {image} cannot be pulled: {shortened(failing[image])}"
        return None


def starting(pods: Iterable[Pod]) -> str:
    """The pods whose containers are still being made, which includes the pull of their image; empty if none."""
    return ", ".join(f"{pod} (image {image})" for pod, image, reason, _ in _waiting(pods) if reason not in NOT_PULLED)


def _waiting(pods: Iterable[Pod]) -> Iterator[tuple[str, str, str, str]]:
    """Pod, image, reason and message of each container that has not started."""
    for pod in pods:
        for status in pod.get("status", {}).get("containerStatuses", []):
            if waiting := status.get("state", {}).get("waiting"):
                # The status may name an image otherwise than the pod does.
                (image,) = (one["image"] for one in pod["spec"]["containers"] if one["name"] == status["name"])
                yield pod["metadata"]["name"], image, waiting.get("reason", ""), waiting.get("message", "")
