"""The plan of a Deployment on this machine: which pods it creates and deletes, and what its status says."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tfjob.api.deployments import limits
from tfjob.api.objects import (
    ContainerState,
    ContainerStatus,
    ContainerTerminated,
    ContainerWaiting,
    Deployment,
    DeploymentStatus,
    ObjectMeta,
    Pod,
    PodCondition,
    PodStatus,
)
from tfjob.controller.actions import Create, Delete, Event
from tfjob.controller.kind import STOPPED, Invalid, Observation, Plan, Stored
from tfjob.local.run.deployments import TEMPLATE_HASH, DeploymentKind, resumed, template_hash

NOW = datetime(2030, 1, 1, tzinfo=UTC)
LABELS = {"app": "web"}


def template(version: int = 1) -> dict[str, Any]:
    container = {"name": "server", "image": f"server:{version}", "command": ["serve"]}
    return {"metadata": {"labels": LABELS}, "spec": {"containers": [container]}}


def deployment(replicas: int | None = None, version: int = 1, **spec: Any) -> Deployment:
    given = {"selector": {"matchLabels": LABELS}, "template": template(version), **spec}
    if replicas is not None:
        given["replicas"] = replicas
    return Deployment(metadata=ObjectMeta(name="web", namespace="default", uid="u", generation=3), spec=given)


def pod(name: str, version: int = 1, *, ready: bool = True, seconds: int = 60, **status: Any) -> Pod:
    """A pod that has been ready for some seconds, or is not."""
    labels = {**LABELS, TEMPLATE_HASH: template_hash(template(version))}
    condition = PodCondition(
        type="Ready", status="True" if ready else "False", last_transition_time=NOW - timedelta(seconds=seconds)
    )
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default", uid=f"uid-{name}", labels=labels),
        status=PodStatus(**{"phase": "Running", "conditions": [condition], **status}),
    )


def going(one: Pod) -> Pod:
    return replace(one, metadata=replace(one.metadata, deletion_timestamp=NOW))


def planned(owner: Deployment, pods: Iterable[Pod], now: datetime = NOW) -> Plan[DeploymentStatus]:
    return DeploymentKind().plan(owner, Observation({Pod: list(pods)}), now)


def summary(plan: Plan[DeploymentStatus]) -> tuple[int, list[str]]:
    """How many pods are created, and the names of those that are deleted."""
    created = [action for action in plan.actions if isinstance(action, Create)]
    deleted = [action.name for action in plan.actions if isinstance(action, Delete)]
    assert len(created) + len(deleted) == len(plan.actions)
    return len(created), deleted


ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
UNAVAILABLE = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
RECREATE = {"type": "Recreate"}


@pytest.mark.parametrize(
    ("owner", "pods", "expected"),
    [
        pytest.param(deployment(), [], (1, []), id="one replica by default"),
        pytest.param(deployment(3), [], (3, []), id="all start together"),
        pytest.param(deployment(0), [], (0, []), id="none wanted"),
        pytest.param(deployment(2), [pod("a"), pod("b", ready=False)], (0, []), id="enough, though not ready"),
        pytest.param(deployment(3), [pod("a")], (2, []), id="scale up"),
        pytest.param(deployment(1), [pod("a"), pod("b"), pod("c", ready=False)], (0, ["c", "b"]), id="scale down"),
        pytest.param(deployment(2), [pod("a"), pod("b", phase="Failed")], (1, ["b"]), id="a failed pod is replaced"),
        pytest.param(deployment(2), [pod("a"), going(pod("b"))], (1, []), id="a pod that is going does not count"),
        pytest.param(deployment(2, 2), [pod("a"), pod("b")], (1, []), id="25% of 2: one more, none less"),
        pytest.param(
            deployment(4, 2), [pod(name) for name in "abcd"], (1, ["a"]), id="25% of 4: one more and one less"
        ),
        pytest.param(
            deployment(2, 2, strategy=ROLLING),
            [pod("a"), pod("b"), pod("n", 2, ready=False)],
            (0, []),
            id="no ready old pod goes before a new one is ready",
        ),
        pytest.param(
            deployment(2, 2, strategy=ROLLING),
            [pod("a"), pod("b"), pod("n", 2)],
            (0, ["a"]),
            id="one new pod is ready, one old goes",
        ),
        pytest.param(
            deployment(2, 2, strategy=ROLLING),
            [pod("a", ready=False), pod("b"), pod("n", 2)],
            (0, ["a"]),
            id="an old pod that is not ready goes first",
        ),
        pytest.param(
            deployment(2, 2, strategy=ROLLING, minReadySeconds=90),
            [pod("a", seconds=100), pod("b", seconds=100), pod("n", 2)],
            (0, []),
            id="a new pod counts after minReadySeconds",
        ),
        pytest.param(deployment(1, 2, strategy=UNAVAILABLE), [pod("a")], (0, ["a"]), id="no surge: the old goes first"),
        pytest.param(deployment(2, 2, strategy=RECREATE), [pod("a"), pod("b")], (0, ["a", "b"]), id="recreate"),
        pytest.param(
            deployment(2, 2, strategy=RECREATE), [going(pod("a"))], (0, []), id="recreate waits until all are gone"
        ),
        pytest.param(deployment(2, 2, strategy=RECREATE), [], (2, []), id="recreate then starts the new ones"),
        pytest.param(deployment(2, 2, paused=True), [pod("a"), pod("b")], (0, []), id="a paused rollout"),
    ],
)
def test_a_pass_creates_and_deletes_pods(owner: Deployment, pods: list[Pod], expected: tuple[int, list[str]]) -> None:
    assert summary(planned(owner, pods)) == expected


def test_a_created_pod_has_the_template_its_hash_and_its_owner() -> None:
    (action,) = planned(deployment(), []).actions
    assert isinstance(action, Create)
    made = action.child
    assert isinstance(made, Pod)
    digest = template_hash(template())
    assert (made.metadata.name, made.metadata.namespace) == (f"web-{digest}-0", "default")
    assert made.metadata.labels == {**LABELS, TEMPLATE_HASH: digest}
    (reference,) = made.metadata.owner_references
    assert (reference.kind, reference.uid, reference.controller) == ("Deployment", "u", True)
    assert made.spec == {**template()["spec"], "restartPolicy": "Always"}


def test_names_of_pods_that_are_still_going_are_not_used_again() -> None:
    digest = template_hash(template())
    plan = planned(deployment(2), [going(pod(f"web-{digest}-0"))])
    names = [action.child.metadata.name for action in plan.actions if isinstance(action, Create)]
    assert names == [f"web-{digest}-1", f"web-{digest}-2"]


@pytest.mark.parametrize(
    ("replicas", "rolling", "expected"),
    [
        (1, {}, (1, 0)),
        (3, {}, (1, 0)),
        (4, {}, (1, 1)),
        (10, {}, (3, 2)),
        (10, {"maxSurge": "0%", "maxUnavailable": "1%"}, (0, 1)),
        (3, {"maxSurge": 2, "maxUnavailable": 9}, (2, 3)),
        (0, {}, (0, 0)),
    ],
)
def test_percentages_round_as_kubernetes_rounds_them(
    replicas: int, rolling: dict[str, Any], expected: tuple[int, int]
) -> None:
    assert limits({"strategy": {"rollingUpdate": rolling}}, replicas) == expected


@pytest.mark.parametrize("seed", range(40))
def test_a_rollout_keeps_its_limits_and_ends_whatever_becomes_ready_first(seed: int) -> None:
    chance = random.Random(seed)
    replicas, surge, unavailable = chance.randint(1, 6), chance.randint(0, 3), chance.randint(0, 3)
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable if surge else max(1, unavailable)}
    owner = deployment(replicas, 2, strategy={"type": "RollingUpdate", "rollingUpdate": rolling})
    surge, unavailable = limits(owner.spec, replicas)
    pods = {f"old-{number}": pod(f"old-{number}") for number in range(replicas)}
    for _ in range(200):
        plan = planned(owner, pods.values())
        for action in plan.actions:
            if isinstance(action, Delete):
                del pods[action.name]
            elif isinstance(action, Create):
                pods[action.child.metadata.name] = pod(action.child.metadata.name, 2, ready=False)
        assert len(pods) <= replicas + surge
        assert sum(pod.is_ready for pod in pods.values()) >= replicas - unavailable
        waiting = [name for name, one in pods.items() if not one.is_ready]
        if waiting and chance.random() < 0.5:
            name = chance.choice(waiting)
            pods[name] = pod(name, 2)
        if not waiting and not plan.actions:
            break
    hashes = [one.metadata.labels[TEMPLATE_HASH] for one in pods.values()]
    assert hashes == [template_hash(template(2))] * replicas


def conditions(status: DeploymentStatus) -> dict[str, tuple[str, str]]:
    return {one.type: (one.status, one.reason) for one in status.conditions}


def test_the_status_counts_pods_and_says_whether_enough_are_available() -> None:
    owner = deployment(3, 2)
    status = planned(owner, [pod("a"), pod("b", ready=False), pod("n", 2), going(pod("c"))]).status
    counts = (status.replicas, status.updated_replicas, status.ready_replicas, status.available_replicas)
    assert (status.observed_generation, counts) == (3, (3, 1, 2, 2))
    assert conditions(status) == {
        "Available": ("False", "MinimumReplicasUnavailable"),
        "Progressing": ("True", "ReplicaSetUpdated"),
    }
    assert (status.state, status.reason) == ("Pending", "ReplicaSetUpdated")
    done = planned(owner, [pod(name, 2) for name in "abc"]).status
    assert conditions(done) == {
        "Available": ("True", "MinimumReplicasAvailable"),
        "Progressing": ("True", "NewReplicaSetAvailable"),
    }
    assert done.state == "Running"


def test_a_condition_keeps_its_time_until_it_changes() -> None:
    owner = deployment(1)
    first = planned(owner, []).status
    later = planned(replace(owner, status=first), [pod("a", ready=False)], NOW + timedelta(seconds=5)).status
    ready = planned(replace(owner, status=later), [pod("a")], NOW + timedelta(seconds=9)).status
    times = [[one.last_transition_time for one in status.conditions] for status in (first, later, ready)]
    assert times == [[NOW, NOW], [NOW, NOW], [NOW + timedelta(seconds=9), NOW]]


def test_the_status_says_why_a_pod_waits() -> None:
    waiting = ContainerState(waiting=ContainerWaiting(reason="CreateContainerError", message="no such image"))
    stuck = pod("a", ready=False, container_statuses=[ContainerStatus(name="server", state=waiting)])
    plan = planned(deployment(1), [stuck])
    assert (plan.status.reason, plan.status.message) == ("CreateContainerError", "a: no such image")
    assert plan.events == []
    probed = replace(pod("a", ready=False), spec={"containers": [{"name": "server", "readinessProbe": {}}]})
    status = planned(deployment(1), [probed]).status
    assert (status.reason, status.message) == ("NotReady", "a: waiting for its readiness probe")


def test_a_container_that_ends_again_and_again_is_explained_counted_and_reported_once() -> None:
    state = ContainerState(waiting=ContainerWaiting(reason="CrashLoopBackOff", message="back-off 10s"))
    last = ContainerState(terminated=ContainerTerminated(exit_code=127, message="not found"))
    container = ContainerStatus(name="server", restart_count=2, state=state, last_state=last)
    looping = [pod("a", ready=False, container_statuses=[container])]
    plan = planned(deployment(1), looping)
    assert (plan.status.reason, plan.status.message) == ("CrashLoopBackOff", "a: exited 127: not found")
    assert plan.status.restarts == 2
    assert plan.events == [Event("BackOff", "a: exited 127: not found", warning=True)]
    assert planned(replace(deployment(1), status=plan.status), looping).events == []


def test_a_plan_is_repeated_when_a_pod_becomes_available() -> None:
    plan = planned(deployment(1, minReadySeconds=90), [pod("a")])
    assert plan.again_at == NOW + timedelta(seconds=30)
    assert planned(deployment(1, minReadySeconds=90), [pod("a")], NOW + timedelta(seconds=30)).again_at is None


def test_a_suspended_deployment_has_no_pods_until_it_is_resumed() -> None:
    kind, owner = DeploymentKind(), deployment(2)
    stopped = kind.suspended(owner, STOPPED)
    plan = planned(stopped, [pod("a"), pod("b")])
    assert summary(plan) == (0, ["b", "a"])
    assert (plan.status.state, plan.status.reason) == ("Suspended", STOPPED)
    stopping = replace(stopped, status=planned(owner, [pod("a"), pod("b")]).status)
    assert planned(stopping, [pod("a")]).status.state == "Running", "a pod is left"
    assert planned(stopping, []).status.state == "Suspended"
    assert planned(stopped, []).actions == []
    assert resumed(stopped) == owner
    assert summary(planned(resumed(stopped), [])) == (2, [])


def test_a_deployment_that_is_being_deleted_creates_nothing() -> None:
    owner = deployment(2)
    assert planned(replace(owner, metadata=replace(owner.metadata, deletion_timestamp=NOW)), []).actions == ()


def without(path: str) -> dict[str, Any]:
    spec = deployment().spec
    return {name: value for name, value in spec.items() if name != path}


LEAST = {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}


@pytest.mark.parametrize(
    ("spec", "path", "keyword"),
    [
        (without("selector"), "spec.selector", "Required value"),
        ({**deployment().spec, "selector": {}}, "spec.selector", "empty selector is invalid for deployment"),
        (
            {**deployment().spec, "selector": {"matchLabels": {"app": "other"}}},
            "spec.template.metadata.labels",
            '{"app":"web"}: `selector` does not match template `labels`',
        ),
        (
            {**deployment().spec, "selector": {"matchExpressions": [{"key": "app", "operator": "In"}]}},
            "spec.selector.matchExpressions[0].values",
            "must be specified when `operator` is 'In' or 'NotIn'",
        ),
        (deployment(-1).spec, "spec.replicas", "Invalid value: -1: must be greater than or equal to 0"),
        (
            {**deployment().spec, "template": {**template(), "spec": {**template()["spec"], "restartPolicy": "Never"}}},
            "spec.template.spec.restartPolicy",
            'Unsupported value: "Never": supported values: "Always"',
        ),
        (
            {**deployment().spec, "template": {"metadata": {"labels": LABELS}}},
            "spec.template.spec.containers",
            "Required value",
        ),
        ({**deployment().spec, "strategy": {"type": "x"}}, "spec.strategy.type", '"Recreate", "RollingUpdate"'),
        (
            {**deployment().spec, "strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}},
            "spec.strategy.rollingUpdate",
            "may not be specified when strategy `type` is 'Recreate'",
        ),
        (
            {**deployment().spec, "strategy": LEAST},
            "spec.strategy.rollingUpdate.maxUnavailable",
            "may not be 0 when `maxSurge` is 0",
        ),
        (
            {**deployment().spec, "strategy": {"rollingUpdate": {"maxSurge": "two"}}},
            "spec.strategy.rollingUpdate.maxSurge",
            "a valid percent string",
        ),
        (
            {**deployment().spec, "strategy": {"rollingUpdate": {"maxUnavailable": "101%"}}},
            "spec.strategy.rollingUpdate.maxUnavailable",
            "must not be greater than 100%",
        ),
        (deployment(minReadySeconds=600).spec, "spec.progressDeadlineSeconds", "must be greater than minReadySeconds"),
    ],
)
def test_a_document_is_checked_as_the_api_server_checks_it(spec: dict[str, Any], path: str, keyword: str) -> None:
    stored = Stored("Deployment", deployment().metadata, msgspec.json.encode(spec))
    with pytest.raises(Invalid) as caught:
        DeploymentKind().decode(stored)
    (problem,) = caught.value.problems
    assert problem.path == path
    assert keyword in problem.message
    rejected = DeploymentKind().reject(deployment(), Observation({Pod: [pod("a")]}), caught.value.problems, NOW)
    assert (rejected.status.state, rejected.status.reason, rejected.actions) == ("Failed", "InvalidSpec", [])


def test_a_sound_document_is_decoded() -> None:
    rules = [{"key": "app", "operator": "In", "values": ["web"]}, {"key": "old", "operator": "DoesNotExist"}]
    spec = {**deployment(2).spec, "selector": {"matchExpressions": rules}}
    owner = DeploymentKind().decode(Stored("Deployment", deployment().metadata, msgspec.json.encode(spec)))
    assert owner.spec == spec
