"""What Kueue relies on: a job that waits makes nothing, and starts with the template that it finds when it is let go.

Kueue creates no field of its own: it flips `suspend`, and with the same write sets or takes back node selectors,
tolerations and labels in the templates. It reads the counts, and the conditions Running, Succeeded and Failed.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from support.plan.builders import after, at, begun, created_pods, deleted, job, listed, pod, running, see, template
from tfjob.api.objects import Pod
from tfjob.api.types import TFJob
from tfjob.controller.actions import Create
from tfjob.plan.plan import JobPlan

GPU = {"nodeSelector": {"pool": "gpu"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]}
CPU = {"nodeSelector": {"pool": "cpu"}}


def let_go(owner: TFJob, flavor: dict[str, Any]) -> TFJob:
    """What Kueue writes when it admits a job."""
    return _written(owner, suspend=False, flavor=flavor, labels={"kueue.x-k8s.io/podset": "worker"})


def held(owner: TFJob) -> TFJob:
    """What Kueue writes when it creates, or evicts, a job."""
    return _written(owner, suspend=True, flavor={}, labels={})


def _written(owner: TFJob, *, suspend: bool, flavor: dict[str, Any], labels: dict[str, str]) -> TFJob:
    pods = {"metadata": {"labels": labels}, "spec": {**template()["spec"], **flavor}}
    specs = {kind: replace(spec, template=pods) for kind, spec in owner.spec.tf_replica_specs.items()}
    run_policy = replace(owner.spec.run_policy, suspend=suspend)
    return replace(owner, spec=replace(owner.spec, tf_replica_specs=specs, run_policy=run_policy))


def placed(outcome: JobPlan) -> list[tuple[Any, Any, str | None]]:
    """Where the pods that a pass makes may run, and their podset."""
    pods = [action.child for action in outcome.actions if isinstance(action, Create) and isinstance(action.child, Pod)]
    return [
        (one.spec.get("nodeSelector"), one.spec.get("tolerations"), one.metadata.labels.get("kueue.x-k8s.io/podset"))
        for one in pods
    ]


def active(outcome: JobPlan) -> int:
    return sum(count.active for count in outcome.status.replica_statuses.values())


SHAPES = [{"worker": 2}, {"worker": 1, "ps": 1}, {"chief": 1, "worker": 1}]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_job_that_was_made_to_wait_starts_with_the_template_of_its_admission(shape: dict[str, int]) -> None:
    owner = held(job(**shape))  # type: ignore[arg-type]
    waiting = see(owner, with_services=False)
    assert (waiting.actions, listed(waiting), waiting.status.start_time) == ([], ["Created", "Suspended"], None)
    outcome = see(let_go(after(owner, waiting), GPU), second=60, with_services=False)
    assert placed(outcome) == [(GPU["nodeSelector"], GPU["tolerations"], "worker")] * 2
    assert (outcome.status.start_time, listed(outcome)) == (at(60), ["Created", "-Suspended"])


@pytest.mark.parametrize("shape", SHAPES)
def test_an_evicted_job_gives_back_what_it_holds_and_starts_elsewhere_when_its_pods_are_gone(
    shape: dict[str, int],
) -> None:
    owner = begun(let_go(job(**shape), GPU))  # type: ignore[arg-type]
    pods = running(owner)
    evicted = see(held(owner), pods, 10)
    assert (len(deleted(evicted)), active(evicted)) == (2, 0)
    assert listed(evicted) == ["Created", "-Running", "Suspended"]
    again = let_go(after(owner, evicted), CPU)
    leaving = [builder.deleting(10) for builder in pods]
    early = see(again, leaving, 11)
    assert (created_pods(early), early.status.start_time) == ([], at(11)), "two generations must not meet"
    late = see(after(again, early), [], 12)
    assert placed(late) == [(CPU["nodeSelector"], None, "worker")] * 2


def test_a_change_of_the_template_alone_touches_no_pod_that_runs() -> None:
    owner = begun(let_go(job(worker=2), GPU))
    assert see(let_go(owner, CPU), running(owner), 10).actions == []


def test_a_job_is_ready_when_its_pods_run_also_the_second_time() -> None:
    owner = begun(let_go(job(worker=1), GPU))
    stopped = after(owner, see(held(owner), running(owner), 10))
    resumed = let_go(stopped, CPU)
    resumed = after(resumed, see(resumed, [], 20))
    assert listed(see(resumed, [pod(resumed, "worker-0").running(21)], 22))[-1] == "Running"


def test_a_job_that_another_cluster_runs_is_not_even_written_to() -> None:
    owner = held(job(worker=2, run={"managed_by": "kueue.x-k8s.io/multikueue"}))
    for one in (owner, let_go(owner, GPU), replace(owner, status=begun(job(worker=2)).status)):
        assert see(one, running(job(worker=2)), 5) == JobPlan(one.status)
