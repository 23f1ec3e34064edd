"""Gang scheduling: the group that is made, when pods wait for it, when it changes and when it goes."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from support.golden import Wording
from support.plan.builders import (
    after,
    at,
    begun,
    created_pods,
    created_services,
    deleted,
    job,
    news,
    pod,
    running,
    see,
    task,
    template,
)
from tfjob.api.objects import PodGroup, PodGroupStatus
from tfjob.api.types import SchedulingPolicy, TFJob
from tfjob.controller.actions import Create, Update
from tfjob.controller.kind import Observation, Rejection
from tfjob.plan.build import pods as children
from tfjob.plan.build.pod_groups import pod_group, step
from tfjob.plan.build.settings import Settings
from tfjob.plan.plan import JobPlan

PLUGINS, VOLCANO = Settings(gang_scheduler="scheduler-plugins-scheduler"), Settings(gang_scheduler="Volcano")
SMALL = template(resources={"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": 2}})


def gang(policy: SchedulingPolicy | None = None, **given: Any) -> TFJob:
    return job(run={"scheduling_policy": policy, **given.pop("run", {})}, **{"chief": 1, "worker": 2, **given})


def group(owner: TFJob, settings: Settings, phase: str = "", spec: dict[str, Any] | None = None) -> PodGroup:
    """The group of a job as a cluster shows it."""
    made = pod_group(owner, settings.gang_scheduler)
    metadata = replace(made.metadata, uid="group-uid", resource_version="7")
    return replace(made, metadata=metadata, spec=spec or made.spec, status=PodGroupStatus(phase=phase))


def made_groups(outcome: JobPlan) -> list[PodGroup]:
    return [a.child for a in outcome.actions if isinstance(a, Create) and isinstance(a.child, PodGroup)]


def updates(outcome: JobPlan) -> list[PodGroup]:
    return [
        action.child for action in outcome.actions if isinstance(action, Update) and isinstance(action.child, PodGroup)
    ]


# --- the object -------------------------------------------------------------------------------------------------------


def test_the_group_of_scheduler_plugins_has_the_shape_of_v1_9() -> None:
    policy = SchedulingPolicy(min_available=2, queue="q", priority_class="high", schedule_timeout_seconds=30)
    made = pod_group(gang(policy, pod_template=SMALL, annotations={"team": "vision"}), "my-scheduler")
    assert (made.api_version, made.kind) == ("scheduling.x-k8s.io/v1alpha1", "PodGroup")
    assert (made.metadata.name, made.metadata.namespace) == ("mnist", "default")
    assert made.metadata.annotations == {"team": "vision"}
    assert [(one.kind, one.uid, one.controller) for one in made.metadata.owner_references] == [
        ("TFJob", "job-uid", True)
    ]
    resources = {"cpu": "1", "memory": "2Gi"}
    assert made.spec == {"minMember": 2, "minResources": resources, "scheduleTimeoutSeconds": 30}


def test_the_group_of_volcano_has_the_shape_of_v1_9() -> None:
    policy = SchedulingPolicy(priority_class="high", schedule_timeout_seconds=30)
    made = pod_group(gang(policy), "VOLCANO")
    assert made.api_version == "scheduling.volcano.sh/v1beta1"
    assert made.spec == {"minMember": 3, "minResources": {}, "queue": "default", "priorityClassName": "high"}
    assert pod_group(gang(SchedulingPolicy(queue="research")), "volcano").spec["queue"] == "research"


@pytest.mark.parametrize(
    ("policy", "resources", "total"),
    [
        ({}, {}, {}),
        ({}, {"requests": {"cpu": "500m", "memory": "512Mi"}}, {"cpu": "1500m", "memory": "1536Mi"}),
        ({}, {"limits": {"nvidia.com/gpu": 1}}, {"nvidia.com/gpu": "3"}),
        ({}, {"requests": {"cpu": 1}, "limits": {"memory": "1G"}}, {"cpu": "3"}),
        ({"min_available": 1}, {"requests": {"cpu": "0.1"}}, {"cpu": "100m"}),
        ({"min_available": 0}, {"requests": {"cpu": "0.1"}}, {}),
        ({"min_resources": {"cpu": 0.5, "memory": "1Gi"}}, {"requests": {"cpu": 4}}, {"cpu": "500m", "memory": "1Gi"}),
        ({}, {"requests": {"cpu": "lots"}}, {}),
    ],
)
def test_the_resources_are_those_given_or_what_the_first_pods_ask_for(
    policy: dict[str, Any], resources: dict[str, Any], total: dict[str, str]
) -> None:
    owner = gang(SchedulingPolicy(**policy), pod_template=template(resources=resources))
    assert pod_group(owner, "any").spec["minResources"] == total


def test_every_container_of_a_pod_counts_and_no_init_container_does() -> None:
    pods = template(resources={"requests": {"cpu": "1"}})
    pods["spec"]["containers"].append({"name": "sidecar", "resources": {"requests": {"cpu": "250m"}}})
    pods["spec"]["initContainers"] = [{"name": "fetch", "resources": {"requests": {"cpu": "64"}}}]
    assert pod_group(job(worker=2, pod_template=pods), "any").spec["minResources"] == {"cpu": "2500m"}


# --- the pods ---------------------------------------------------------------------------------------------------------


def test_a_pod_says_which_group_it_belongs_to() -> None:
    owner = gang()
    plugins = children.pod(owner, task("worker-1"), 1, PLUGINS)
    assert plugins.metadata.labels["scheduling.x-k8s.io/pod-group"] == "mnist"
    assert plugins.spec["schedulerName"] == "scheduler-plugins-scheduler"
    volcano = children.pod(owner, task("worker-1"), 1, VOLCANO)
    notes = volcano.metadata.annotations
    assert (notes["scheduling.k8s.io/group-name"], notes["volcano.sh/task-spec"]) == ("mnist", "worker")
    assert (volcano.spec["schedulerName"], volcano.metadata.labels) == (
        "volcano",
        children.pod(owner, task("worker-1"), 1, Settings()).metadata.labels,
    )


def test_without_a_gang_scheduler_there_is_no_group_and_no_mark() -> None:
    made = children.pod(gang(SchedulingPolicy(min_available=2)), task("worker-0"), 1, Settings())
    assert "schedulerName" not in made.spec
    assert set(made.metadata.annotations) == {"tfjob/attempt", "tfjob/cluster-size"}
    assert made_groups(see(gang(SchedulingPolicy(min_available=2)))) == []


def test_a_template_that_names_another_scheduler_keeps_it_and_that_is_said_once() -> None:
    own = template()
    own["spec"]["schedulerName"] = "other"
    owner = gang(pod_template=own)
    assert children.pod(owner, task("worker-0"), 1, VOLCANO).spec["schedulerName"] == "other"
    first = see(owner, settings=VOLCANO)
    assert news(first) == ["SetPodTemplateSchedulerName"]
    assert first.events[0].warning
    assert news(see(after(owner, first), settings=VOLCANO)) == []
    own["spec"]["schedulerName"] = "volcano"
    assert news(see(gang(pod_template=own), settings=VOLCANO)) == []


# --- its life ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [PLUGINS, VOLCANO])
def test_the_group_is_made_before_anything_else(settings: Settings) -> None:
    owner = gang()
    first = see(owner, settings=settings, with_services=False)
    assert [action.child.kind for action in first.actions if isinstance(action, Create)] == ["PodGroup"]
    assert (first.status.state, first.status.reason) == ("Pending", "Starting")


def test_with_scheduler_plugins_the_pods_follow_as_soon_as_the_group_is_there() -> None:
    owner = gang()
    owner = after(owner, see(owner, settings=PLUGINS))
    second = see(owner, settings=PLUGINS, with_services=False, pod_groups=[group(owner, PLUGINS)])
    assert (len(created_pods(second)), len(created_services(second))) == (3, 3)
    assert (second.status, updates(second)) == (owner.status, []), "nothing to write in between"


@pytest.mark.parametrize("phase", ["", "Pending"])
def test_with_volcano_the_pods_wait_until_the_group_is_admitted_and_the_wait_is_shown_once(
    phase: str, wording: Wording
) -> None:
    owner = gang()
    owner = after(owner, see(owner, settings=VOLCANO))
    waiting = see(owner, second=3, settings=VOLCANO, pod_groups=[group(owner, VOLCANO, phase)])
    assert (waiting.actions, waiting.status.state, waiting.status.reason) == ([], "Pending", "PodGroupPending")
    assert "PodGroup mnist" in waiting.status.message
    wording(waiting.status.message)
    assert waiting.status.last_reconcile_time == at(3)
    later = after(owner, waiting)
    still = see(later, second=9, settings=VOLCANO, pod_groups=[group(owner, VOLCANO, phase)])
    assert (still.status, still.again_at) == (later.status, None), "no pass asks for the next one"
    admitted = see(later, second=10, settings=VOLCANO, pod_groups=[group(owner, VOLCANO, "Inqueue")])
    assert (len(created_pods(admitted)), admitted.status.reason) == (3, "Starting")


def test_a_group_that_is_as_it_should_be_is_not_written_again() -> None:
    owner = begun(gang(pod_template=SMALL))
    wanted = pod_group(owner, "volcano").spec
    for spec in (
        wanted,
        {**wanted, "minResources": {"cpu": "1500m", "memory": "3072Mi"}},
        {**wanted, "queue": "research"},
        {**wanted, "minTaskMember": {"worker": 1}},
    ):
        assert step(owner, Observation({PodGroup: [group(owner, VOLCANO, "Running", spec)]}), "volcano").actions == []


def test_a_group_follows_its_job_but_keeps_its_queue_and_what_the_scheduler_added() -> None:
    owner = begun(gang(SchedulingPolicy(queue="new", priority_class="high"), pod_template=SMALL))
    seen = {"minMember": 9, "minResources": {"cpu": "9"}, "queue": "old", "minTaskMember": {"worker": 1}}
    (update,) = step(owner, Observation({PodGroup: [group(owner, VOLCANO, "Running", seen)]}), "volcano").actions
    assert isinstance(update, Update)
    assert isinstance(update.child, PodGroup)
    assert (update.child.metadata.uid, update.child.metadata.resource_version) == ("group-uid", "7")
    assert update.child.spec == {
        "minMember": 3,
        "minResources": {"cpu": "1500m", "memory": "3Gi"},
        "queue": "old",
        "priorityClassName": "high",
        "minTaskMember": {"worker": 1},
    }


def test_scaling_changes_the_group_before_the_pods() -> None:
    owner = begun(job(worker=2, ps=1))
    seen = group(owner, PLUGINS)
    bigger = {**owner.spec.tf_replica_specs, "Worker": replace(owner.spec.tf_replica_specs["Worker"], replicas=3)}
    scaled = replace(owner, spec=replace(owner.spec, tf_replica_specs=bigger))
    outcome = see(scaled, running(owner), 5, settings=PLUGINS, pod_groups=[seen])
    assert [type(action) for action in outcome.actions] == [Update, Create]
    assert (updates(outcome)[0].spec["minMember"], created_pods(outcome)) == (4, ["mnist-worker-2"])


def test_a_group_that_somebody_deletes_is_made_again_and_what_runs_goes_on() -> None:
    owner = begun(gang())
    leaving = group(owner, PLUGINS)
    leaving = replace(leaving, metadata=replace(leaving.metadata, deletion_timestamp=at(4)))
    assert see(owner, running(owner), 5, settings=PLUGINS, pod_groups=[leaving]).actions == []
    outcome = see(owner, running(owner), 6, settings=PLUGINS)
    assert (len(made_groups(outcome)), outcome.status.state, deleted(outcome)) == (1, "Running", [])


@pytest.mark.parametrize("policy", ["None", "Running", "All"])
def test_the_group_goes_when_the_job_ends_whatever_stays_of_its_pods(policy: str) -> None:
    owner = begun(gang(run={"clean_pod_policy": policy}))
    pods = [pod(owner, "chief-0").exited(0, 5), *running(owner, "worker-0", "worker-1")]
    outcome = see(owner, pods, 6, settings=PLUGINS, pod_groups=[group(owner, PLUGINS)])
    assert (deleted(outcome, "PodGroup"), news(outcome)) == (["mnist"], ["TFJobSucceeded", "JobTerminated"])
    assert deleted(see(after(owner, outcome), [], 9, pod_groups=[group(owner, PLUGINS)]), "PodGroup") == ["mnist"]


def test_the_group_goes_when_the_job_is_suspended_and_comes_back_with_it() -> None:
    owner = begun(gang())
    stopped = replace(owner, spec=replace(owner.spec, run_policy=replace(owner.spec.run_policy, suspend=True)))
    outcome = see(stopped, running(owner), 6, settings=VOLCANO, pod_groups=[group(owner, VOLCANO, "Running")])
    assert (deleted(outcome, "PodGroup"), news(outcome)) == (["mnist"], ["TFJobSuspended", "JobTerminated"])
    resumed = replace(after(owner, outcome), spec=owner.spec)
    assert len(made_groups(see(resumed, [], 9, settings=VOLCANO))) == 1


@pytest.mark.parametrize(("reason", "state"), [("NameTaken", "Pending"), ("Invalid", "Failed")])
def test_a_group_that_cannot_be_made_is_shown_and_no_pod_is_made_without_it(reason: str, state: str) -> None:
    rejections = {("PodGroup", "mnist"): Rejection(reason, "PodGroup mnist is not possible", at(0))}
    outcome = see(gang(), second=1, settings=PLUGINS, rejections=rejections)
    assert (outcome.status.state, outcome.status.reason) == (state, reason)
    assert (outcome.status.message, created_pods(outcome)) == ("PodGroup mnist is not possible", [])
