"""The self-test of an installation: run one small job to its end, delete it, and check that nothing is left.

    await SelfTest(client, Trial("tfjob-test", "default", SelfTestOptions(image="...")), print).run(TFJOBS)

The status of the job says why a replica does not start.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tfjob.api.dialect import JOB_NAME_LABEL, TF_JOB_NAME_LABEL, TF_JOBS
from tfjob.api.objects import Pod, Service
from tfjob.api.resources import CONFIG_MAPS, DEPLOYMENTS, JOBS, PODS, SERVICES, Resource
from tfjob.api.types import TFJOBS
from tfjob.durations import durations_from
from tfjob.kube.access import config
from tfjob.kube.access.errors import ApiError, KubeError, NotFound
from tfjob.kube.client.client import Client
from tfjob.operator.install.rollout import until
from tfjob.operator.options import SelfTestOptions

Object = dict[str, Any]
MEETING = ["/usr/local/bin/python", "-m", "tfjob.operator.selftest.rendezvous"]
"""The command of a task in the operator's image, if no test image is given."""
LOG_FOLDER = "/tmp/tensorflow"  # noqa: S108 (in a container)
CHILDREN = (PODS, SERVICES, CONFIG_MAPS, JOBS, DEPLOYMENTS)
"""The kinds of objects that a job owns."""
NOT_PULLED = ("ErrImageNeverPull", "ErrImagePull", "ImagePullBackOff")


class Failed(KubeError):
    """The job of the self-test failed."""


class NotPulled(Failed):
    """A node cannot pull an image of the self-test."""


@dataclass(frozen=True)
class Trial:
    """The job of a self-test; without a `test_image`, its tasks run the operator's image and only connect."""

    name: str
    namespace: str
    options: SelfTestOptions

    def manifest(self, resource: Resource) -> Object:
        kinds, board, options = ("Master", "Worker", "PS"), {"logDir": LOG_FOLDER}, self.options
        spec: Object = {"tfImage": options.tf_image or options.test_image} if options.test_image else {}
        if resource == TF_JOBS:
            replicas = [{"tfReplicaType": kind.upper(), **self._program(kind)} for kind in kinds]
            spec |= {"replicaSpecs": replicas, "tensorboard": board}
        else:
            by_type = {kind: {"replicas": 1, **self._program(kind)} for kind in kinds}
            policy = {"activeDeadlineSeconds": int(options.timeout.total_seconds())}
            spec |= {"runPolicy": policy, "tfReplicaSpecs": by_type, "tensorBoard": board}
        return resource.manifest({"name": self.name, "namespace": self.namespace}, spec=spec)

    def _program(self, kind: str) -> Object:
        options = self.options
        pod: Object = {"imagePullSecrets": [{"name": options.pull_secret}]} if options.pull_secret else {}
        if kind == "PS" and options.test_image:  # the default parameter server
            return {"template": {"spec": pod}} if pod else {}
        image = options.test_image or options.image
        container: Object = {"name": "tensorflow", "image": image, "imagePullPolicy": options.pull_policy}
        if not options.test_image:
            container |= {
                "command": MEETING,
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            }
            pod["securityContext"] = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
        return {"template": {"spec": {"containers": [container], **pod}}}


def run_self_test(context: str | None, options: SelfTestOptions, say: Callable[[str], None]) -> None:
    """Run the self-test on the cluster of a context. Raises KubeError."""
    access = config.load(context)
    trial = Trial(f"tfjob-test-{secrets.token_hex(3)}", options.namespace or access.namespace, options)

    async def connected() -> None:
        async with Client(access, durations=durations_from(os.environ)) as client:
            served = TF_JOBS if await client.serves(TF_JOBS) else TFJOBS
            wanted = {one.api_version: one for one in (TFJOBS, TF_JOBS)}.get(options.api_version or "", served)
            await SelfTest(client, trial, say).run(wanted)

    asyncio.run(connected())


class SelfTest:
    """One run of the test; `say` is called with each step."""

    def __init__(self, client: Client, trial: Trial, say: Callable[[str], None]) -> None:
        self.client = client
        self.trial = trial
        self.say = say
        self._last = ""
        self._unpulled_since: float | None = None

    async def run(self, resource: Resource) -> None:
        """Run the job. Raises Failed if it fails, NotPulled for an image, NotReady if it takes too long."""
        name, namespace, patience = self.trial.name, self.trial.namespace, self.trial.options.timeout
        end = time.monotonic() + patience.total_seconds()
        self.say(f"creating {resource.kind} {name} of {resource.api_version} in namespace {namespace}")
        await self.client.create(resource, namespace, self.trial.manifest(resource))
        try:
            await until(lambda: self._ended(resource), f"{resource.kind} {name} has not ended", patience)
            left = max(timedelta(seconds=round(end - time.monotonic())), self.client.durations.board_answers)
            await until(
                lambda: self._unseen(resource), f"the TensorBoard of {resource.kind} {name} does not answer", left
            )
            self.say("its TensorBoard answers")
        finally:
            with suppress(NotFound):
                await self.client.delete(resource, namespace, name, propagation="Background")
        patience = self.client.durations.trial_gone
        await until(lambda: self.left(resource), f"the objects of {resource.kind} {name} are not deleted", patience)
        self.say("deleted the job; its pods and Services are gone")

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
        self.check_pull(status, time.monotonic())
        return f"{state}: {reason}" if state else "no operator has reported a state"

    def check_pull(self, status: Mapping[str, Any], now: float) -> None:
        """Raise NotPulled if the status has reported for too long that an image cannot be pulled."""
        # In a v1alpha1 status, the reason includes the message.
        word, _, rest = status.get("reason", "").partition(": ")
        if word not in NOT_PULLED:
            self._unpulled_since = None
            return
        self._unpulled_since = now if self._unpulled_since is None else self._unpulled_since
        if now - self._unpulled_since >= self.client.durations.unpulled.total_seconds():
            raise NotPulled(f"an image cannot be pulled: {status.get('message') or rest}")

    async def _unseen(self, resource: Resource) -> str | None:
        """Return why the TensorBoard cannot be reached through the API server's proxy; None if it can."""
        namespace = self.trial.namespace
        selector = f"app=tensorboard,{self._selector(resource)}"
        found = (await self.client.list(SERVICES, namespace, label_selector=selector, type=Service)).items
        if not found:
            return "it has no Service"
        path = SERVICES.object_path(namespace, f"{found[0].metadata.name}:80", "proxy")
        try:
            await self.client.request("GET", f"{path}/data/environment")
        except ApiError as error:
            pods = (await self.client.list(PODS, namespace, label_selector=self._board, type=Pod)).items
            return "; ".join([error.message, *(reason for pod in pods for reason in pod.obstacles)])
        return None

    async def left(self, resource: Resource) -> str | None:
        """Return the objects that are left of the job; None if there are none."""
        own = self._selector(resource)
        places = [*((kind, own) for kind in CHILDREN), (PODS, self._board)]
        found: list[str] = []
        for kind, selector in places:
            listing = await self.client.list(kind, self.trial.namespace, label_selector=selector, type=dict)
            found += [f"{kind.kind} {one['metadata']['name']}" for one in listing.items]
        return ", ".join(dict.fromkeys(found)) or None

    @property
    def _board(self) -> str:
        """The selector of the TensorBoard's pods, which do not have the labels of replicas."""
        return f"app=tensorboard,{TF_JOB_NAME_LABEL}={self.trial.name}"

    def _selector(self, resource: Resource) -> str:
        return f"{TF_JOB_NAME_LABEL if resource == TF_JOBS else JOB_NAME_LABEL}={self.trial.name}"
