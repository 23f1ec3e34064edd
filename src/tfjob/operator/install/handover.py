"""Take over TFJobs from other operators: find them, and list the steps of the handover.

training-operator keeps its other kinds. Its webhook for TFJob is removed, because it would reject every job once its
server is gone. Pods of running jobs are not touched.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tfjob.api.resources import DEPLOYMENTS, VALIDATING_WEBHOOKS, Resource
from tfjob.operator.options import NAME, labels

Object = Mapping[str, Any]

KIND = "TFJob"
OTHER_KINDS = ("PyTorchJob", "XGBoostJob", "MPIJob", "MXJob", "PaddleJob", "JAXJob")
FLAG = "enable-scheme"
SCALE_TO_ZERO: tuple[Object, ...] = ({"op": "add", "path": "/spec/replicas", "value": 0},)
WEBHOOK_ENTRY = "validator.tfjob.training-operator.kubeflow.org"
TRAINING_OPERATOR = {"training-operator"}
TF_OPERATOR = {"tf-operator", "tf_operator"}
"""The names of operator images, without registry and tag; a TF_OPERATOR handles only TFJob."""


@dataclass(frozen=True)
class Step:
    """One change of the handover; without a `patch` the object is deleted. `command` does the same with kubectl."""

    said: str
    resource: Resource
    namespace: str
    name: str
    patch: tuple[Mapping[str, Any], ...] | None

    @property
    def command(self) -> str:
        where = ["-n", self.namespace] if self.namespace else []
        kind = self.resource.kind.lower()
        if self.patch is None:
            return shlex.join(["kubectl", *where, "delete", kind, self.name])
        body = json.dumps(self.patch, separators=(",", ":"))
        return shlex.join(["kubectl", *where, "patch", kind, self.name, "--type=json", f"-p={body}"])


def steps(
    deployments: Iterable[Object], webhooks: Iterable[Object], kinds: Collection[str], namespace: str
) -> list[Step]:
    """Return the steps after which no other operator handles TFJobs; empty if none does now.

    `kinds` are those that the cluster serves in kubeflow.org/v1; `namespace` is where ours will be installed.
    """
    found = [step for one in webhooks for step in _webhook_steps(one)]
    return found + [step for one in deployments for step in _deployment_steps(one, kinds, namespace)]


def ours_elsewhere(deployments: Iterable[Object], namespace: str, *, one_namespace: bool) -> str:
    """Return the namespace of another operator of ours that would handle the same jobs; empty if there is none."""
    for one in deployments:
        metadata = one["metadata"]
        place: str = metadata.get("namespace", "")
        containers = one["spec"]["template"]["spec"].get("containers") or []
        words = [word for container in containers for word in container.get("args") or []]
        restricted = any(word.startswith("--namespace") for word in words)
        if _is_of_ours(metadata) and place != namespace and not (one_namespace and restricted):
            return place
    return ""


def _is_of_ours(metadata: Object) -> bool:
    given = metadata.get("labels") or {}
    return metadata["name"] == NAME and all(given.get(key) == value for key, value in labels().items())


def _webhook_steps(configuration: Object) -> Iterable[Step]:
    for index, entry in enumerate(configuration.get("webhooks") or []):
        if entry.get("name") == WEBHOOK_ENTRY:
            name = configuration["metadata"]["name"]
            patch = (
                {"op": "test", "path": f"/webhooks/{index}/name", "value": WEBHOOK_ENTRY},
                {"op": "remove", "path": f"/webhooks/{index}"},
            )
            yield Step(f"the webhook configuration {name} validates TFJobs", VALIDATING_WEBHOOKS, "", name, patch)


def _deployment_steps(deployment: Object, kinds: Collection[str], own_namespace: str) -> Iterable[Step]:
    metadata = deployment["metadata"]
    if _is_of_ours(metadata):
        return
    place = (metadata.get("namespace", ""), metadata["name"])
    said = f"the Deployment {place[1]} in namespace {place[0]} manages TFJobs"
    index, image = _operator_container(deployment)
    if place == (own_namespace, NAME):
        yield Step(f"{said} and has the name that this operator needs", DEPLOYMENTS, *place, None)
    elif index < 0 or deployment["spec"].get("replicas") == 0:
        return
    elif image in TF_OPERATOR:
        yield Step(said, DEPLOYMENTS, *place, SCALE_TO_ZERO)
    else:
        patch = _without_tfjob(deployment["spec"]["template"]["spec"]["containers"][index], index, kinds)
        if patch is not None:
            yield Step(said, DEPLOYMENTS, *place, patch)


def _operator_container(deployment: Object) -> tuple[int, str]:
    """Return the index and image name of the container with another operator; -1 if there is none."""
    for index, container in enumerate(deployment["spec"]["template"]["spec"].get("containers") or []):
        # `name` of `registry:5000/path/name:tag@digest`
        image = container.get("image", "").partition("@")[0].rpartition("/")[2].partition(":")[0]
        if image in TRAINING_OPERATOR | TF_OPERATOR:
            return index, image
    return -1, ""


def _without_tfjob(container: Object, index: int, kinds: Collection[str]) -> tuple[Mapping[str, Any], ...] | None:
    """Return the patch that makes training-operator ignore TFJob; None if it already does."""
    command, in_command = _parted(container.get("command") or [])
    arguments, in_arguments = _parted(container.get("args") or [])
    schemes = in_command + in_arguments
    if schemes and KIND.lower() not in map(str.lower, schemes):
        return None
    wanted = [one for one in schemes if one.lower() != KIND.lower()]
    if not schemes:
        wanted = [kind for kind in OTHER_KINDS if kind in kinds]
    if not wanted:
        return SCALE_TO_ZERO
    place = f"/spec/template/spec/containers/{index}"
    flags = [f"--{FLAG}={kind}" for kind in wanted]
    patch: list[Mapping[str, Any]] = [{"op": "add", "path": f"{place}/args", "value": [*arguments, *flags]}]
    if in_command:
        patch.insert(0, {"op": "add", "path": f"{place}/command", "value": command})
    return tuple(patch)


def _parted(words: list[str]) -> tuple[list[str], list[str]]:
    """Return the other arguments, and the kinds in the flags that enable kinds (`--flag x` or `--flag=x`)."""
    kept: list[str] = []
    kinds: list[str] = []
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if name in (f"--{FLAG}", f"-{FLAG}"):
            kinds.append(value if equals else next(rest, ""))
        else:
            kept.append(word)
    return kept, kinds
