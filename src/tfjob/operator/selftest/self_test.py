"""The test of an installation: one small job from its creation to its end, and nothing left of it afterwards.

    await SelfTest(client, Trial("tfjob-test", "default", image="..."), print).run(TFJOBS, 120)

`Pulls` says which images pods wait for, and when waiting is pointless.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tfjob.api.dialect import JOB_NAME_LABEL, TF_JOB_NAME_LABEL, TF_JOBS
from tfjob.api.resources import CONFIG_MAPS, DEPLOYMENTS, JOBS, PODS, SERVICES, Resource
from tfjob.kube.access.errors import ApiError, KubeError, NotFound
from tfjob.kube.client.client import Client
from tfjob.operator.install.rollout import until
from tfjob.plan.policy.verdict import shortened

Object = dict[str, Any]
MEETING = ["/usr/local/bin/python", "-m", "tfjob.operator.selftest.rendezvous"]
"""What a task runs in the operator's own image, where no other one is given."""
LOG_FOLDER = "/tmp/tensorflow"  # noqa: S108 (in a container)
BOARD_SECONDS, GONE_SECONDS = 60, 60
CHILDREN = (PODS, SERVICES, CONFIG_MAPS, JOBS, DEPLOYMENTS)
"""What a job may have of its own."""
PodObject = Mapping[str, Any]
NOT_PULLED = frozenset({"ErrImageNeverPull", "ErrImagePull", "ImagePullBackOff", "InvalidImageName"})
PULL_SECONDS = 60.0
"""A registry may fail once or twice; the kubelet has asked it three times by then."""


class Failed(KubeError):
    """The installation did not do what it should."""


class NotPulled(Failed):
    """A node cannot get an image of the test."""


@dataclass(frozen=True)
class Trial:
    """The job of a test.

    `test_image` brings TensorFlow and a program that trains; its parameter server is the default one, in `tf_image` or
    the same image. Without it the tasks run the operator's `image` and meet each other: nothing has TensorFlow then.
    """

    name: str
    namespace: str
    image: str
    test_image: str = ""
    tf_image: str = ""
    pull_policy: str = "IfNotPresent"
    pull_secret: str = ""

    def manifest(self, resource: Resource, seconds: int) -> Object:
        """The job for one of both kinds."""
        spec = self._first() if resource == TF_JOBS else self._current(seconds)
        metadata = {"name": self.name, "namespace": self.namespace}
        return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}

    def _current(self, seconds: int) -> Object:
        replicas = {kind: {"replicas": 1, **self._program(kind)} for kind in ("Master", "Worker", "PS")}
        policy = {"activeDeadlineSeconds": seconds}
        return {
            "runPolicy": policy,
            "tfReplicaSpecs": replicas,
            "tensorBoard": {"logDir": LOG_FOLDER},
            **self._server_image(),
        }

    def _first(self) -> Object:
        replicas = [{"tfReplicaType": kind, **self._program(kind)} for kind in ("MASTER", "WORKER", "PS")]
        return {"replicaSpecs": replicas, "tensorboard": {"logDir": LOG_FOLDER}, **self._server_image()}

    def _server_image(self) -> Object:
        return {"tfImage": self.tf_image or self.test_image} if self.test_image else {}

    def _program(self, kind: str) -> Object:
        if kind == "PS" and self.test_image:
            return {"template": {"spec": self._secrets()}} if self.pull_secret else {}
        return {"template": self._template()}

    def _template(self) -> Object:
        container: Object = {
            "name": "tensorflow",
            "image": self.test_image or self.image,
            "imagePullPolicy": self.pull_policy,
        }
        pod: Object = {"containers": [container], **self._secrets()}
        if not self.test_image:
            container |= {
                "command": MEETING,
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            }
            pod["securityContext"] = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
        return {"spec": pod}

    def _secrets(self) -> Object:
        return {"imagePullSecrets": [{"name": self.pull_secret}]} if self.pull_secret else {}


class SelfTest:
    """One run of the test; `say` is told each step."""

    def __init__(self, client: Client, trial: Trial, say: Callable[[str], None]) -> None:
        self.client = client
        self.trial = trial
        self.say = say
        self._last = ""
        self._pulls = Pulls()

    async def run(self, resource: Resource, seconds: int) -> None:
        """Raises Failed if the job does not succeed, NotReady if it does not end or does not go in time.

        Both include the reason; NotPulled is an image that never came.
        """
        end = time.monotonic() + seconds
        name, namespace = self.trial.name, self.trial.namespace
        self.say(f"creating {resource.kind} {name} of {resource.api_version} in namespace {namespace}")
        await self.client.create(resource, namespace, self.trial.manifest(resource, seconds))
        try:
            await until(lambda: self._ended(resource), f"{resource.kind} {name} does not end", seconds)
            left = round(max(end - time.monotonic(), BOARD_SECONDS))
            await until(
                lambda: self._unseen(resource), f"the TensorBoard of {resource.kind} {name} does not answer", left
            )
            self.say("its TensorBoard answers")
        finally:
            with suppress(NotFound):
                await self.client.delete(resource, namespace, name, propagation="Background")
        await until(lambda: self.left(resource), f"what belongs to {resource.kind} {name} does not go", GONE_SECONDS)
        self.say("deleted it, and its pods and services are gone")

    async def _ended(self, resource: Resource) -> str | None:
        found = await self.client.get(resource, self.trial.namespace, self.trial.name)
        status = found.get("status", {})
        state, reason = status.get("state", ""), status.get("message") or status.get("reason", "")
        if f"{state}{reason}" != self._last:
            self._last = f"{state}{reason}"
            self.say(f"{state}: {reason}" if reason else state)
        if state == "Failed":
            raise Failed(f"{resource.kind} {self.trial.name} failed: {reason}")
        if state == "Succeeded":
            return None
        waits = await self._waits(resource)
        return "; ".join(filter(None, (f"{state or 'no operator looks after it'}: {reason}", waits)))

    async def _waits(self, resource: Resource) -> str:
        """Which pods are still being started; raises NotPulled when an image of theirs will not come."""
        board = f"app=tensorboard,{TF_JOB_NAME_LABEL}={self.trial.name}"
        pods = [
            pod
            for selector in (self._selector(resource), board)
            for pod in (await self.client.list(PODS, self.trial.namespace, label_selector=selector)).items
        ]
        if failure := self._pulls.failure(pods, time.monotonic()):
            raise NotPulled(failure)
        being_made = pods_starting(pods)
        return f"being started: {being_made}" if being_made else ""

    async def _unseen(self, resource: Resource) -> str | None:
        """What keeps the TensorBoard from being seen, as `kubectl proxy` would show it."""
        namespace = self.trial.namespace
        selector = f"app=tensorboard,{self._selector(resource)}"
        found = (await self.client.list(SERVICES, namespace, label_selector=selector)).items
        if not found:
            return "it has no Service"
        path = SERVICES.object_path(namespace, f"{found[0]['metadata']['name']}:80", "proxy")
        try:
            await self.client.request("GET", f"{path}/data/environment")
        except ApiError as error:
            return "; ".join(filter(None, (error.message, await self._waits(resource))))
        return None

    async def left(self, resource: Resource) -> str | None:
        """What there still is of the job."""
        own, board = self._selector(resource), f"app=tensorboard,{TF_JOB_NAME_LABEL}={self.trial.name}"
        # The pods of a TensorBoard do not carry the labels of replicas.
        places = [*((kind, own) for kind in CHILDREN), (PODS, board)]
        listed = [await self.client.list(kind, self.trial.namespace, label_selector=one) for kind, one in places]
        found = [
            f"{kind.kind} {one['metadata']['name']}"
            for (kind, _), listing in zip(places, listed, strict=True)
            for one in listing.items
        ]
        return ", ".join(dict.fromkeys(found)) or None

    def _selector(self, resource: Resource) -> str:
        """What selects everything that belongs to the job."""
        return f"{TF_JOB_NAME_LABEL if resource == TF_JOBS else JOB_NAME_LABEL}={self.trial.name}"


class Pulls:
    """What has been seen of the images of some pods."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def failure(self, pods: Iterable[PodObject], now: float) -> str | None:
        """The image that could not be pulled for too long, with what the kubelet says; None while there is hope."""
        failing = {image: message for _, image, reason, message in _waiting(pods) if reason in NOT_PULLED}
        self._since = {image: self._since.get(image, now) for image in failing}
        for image, since in self._since.items():
            if now - since >= PULL_SECONDS:
                return f"image {image} cannot be pulled: {shortened(failing[image])}"
        return None


def pods_starting(pods: Iterable[PodObject]) -> str:
    """The pods whose containers are still being made, which includes the pull of their image; empty if none."""
    return ", ".join(f"{pod} (image {image})" for pod, image, reason, _ in _waiting(pods) if reason not in NOT_PULLED)


def _waiting(pods: Iterable[PodObject]) -> Iterator[tuple[str, str, str, str]]:
    """Pod, image, reason and message of each container that has not started."""
    for pod in pods:
        for status in pod.get("status", {}).get("containerStatuses", []):
            if waiting := status.get("state", {}).get("waiting"):
                # The status may name an image otherwise than the pod does.
                (image,) = (one["image"] for one in pod["spec"]["containers"] if one["name"] == status["name"])
                yield pod["metadata"]["name"], image, waiting.get("reason", ""), waiting.get("message", "")
