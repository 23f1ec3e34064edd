"""TFJobs and TfJobs as kinds: how they are read from what an API server stores."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tfjob.api.dialect import TF_JOB
from tfjob.api.objects import ObjectMeta
from tfjob.api.types import KIND, TFJob
from tfjob.controller.kind import Invalid, Stored
from tfjob.plan.kind import TFJobKind, TfJobKind

CONTAINER = {"name": "tensorflow", "image": "x:1"}
WORKER = {"Worker": {"template": {"spec": {"containers": [CONTAINER]}}}}


def stored_job(spec: dict[str, Any], status: Any = None) -> Stored:
    metadata = ObjectMeta(name="j", namespace="n", uid="u")
    return Stored(KIND, metadata, msgspec.json.encode(spec), msgspec.json.encode(status or {}))


def test_a_job_is_read_with_its_defaults() -> None:
    job = TFJobKind().decode(stored_job({"tfReplicaSpecs": WORKER}))
    assert job.spec.tf_replica_specs["Worker"].replicas == 1
    assert job.spec.run_policy.clean_pod_policy == "Running"


def test_replica_types_may_be_spelt_in_any_case() -> None:
    job = TFJobKind().decode(stored_job({"tfReplicaSpecs": {"worker": WORKER["Worker"], "Ps": WORKER["Worker"]}}))
    assert set(job.spec.tf_replica_specs) == {"Worker", "PS"}


def test_a_spec_that_is_none_is_told_with_the_paths_of_its_faults() -> None:
    """A job may be older than our schema, or the schema somebody else's."""
    with pytest.raises(Invalid) as caught:
        TFJobKind().decode(stored_job({"tfReplicaSpecs": {"Worker": {"replicas": "many"}}}))
    assert caught.value.owner.metadata.uid == "u"
    assert any("replicas" in problem.path for problem in caught.value.problems)


def test_a_broken_spec_keeps_what_can_be_read_of_its_run_policy() -> None:
    """Who manages the job, and what stays of it."""
    policy = {"managedBy": "kueue.x-k8s.io/multikueue", "ttlSecondsAfterFinished": 60, "backoffLimit": "many"}
    with pytest.raises(Invalid) as caught:
        TFJobKind().decode(stored_job({"tfReplicaSpecs": WORKER, "runPolicy": policy}))
    assert isinstance(caught.value.owner, TFJob)
    kept = caught.value.owner.spec.run_policy
    assert (kept.managed_by, kept.ttl_seconds_after_finished) == ("kueue.x-k8s.io/multikueue", 60)


def test_a_status_that_is_not_ours_says_nothing() -> None:
    job = TFJobKind().decode(stored_job({"tfReplicaSpecs": WORKER}, status={"phase": "Done", "conditions": "none"}))
    assert job.status.conditions == []


def test_a_job_that_ended_under_somebody_elses_status_has_ended() -> None:
    """Else it would run again."""
    conditions = [{"type": "Succeeded", "status": "True"}, {"type": 1}]
    job = TFJobKind().decode(stored_job({"tfReplicaSpecs": WORKER}, status={"attempt": "x", "conditions": conditions}))
    assert [condition.type for condition in job.status.conditions] == ["Succeeded"]


EDITS: list[dict[str, Any]] = [
    {"replicaSpecs": [{"tfReplicaType": "MASTER", "tfPrt": 3, "template": {"spec": {"containers": [CONTAINER]}}}]},
    {"replicaSpecs": [{"tfReplicaType": "MASTER", "replicas": "many", "template": {"spec": {}}}]},
    {"replicaSpecs": [{"template": {"spec": {"containers": [CONTAINER]}}}] * 2},
    {"replicaSpecs": "none"},
]


@pytest.mark.parametrize("spec", EDITS, ids=["a misspelt field", "a wrong type", "a type twice", "no list"])
def test_a_tf_job_that_runs_is_judged_again_when_it_is_edited(spec: dict[str, Any]) -> None:
    """Without a webhook nothing else checks it: its CRD accepts any spec."""

    def stored(spec: dict[str, Any], generation: int) -> Stored:
        details = {"attempt": 1, "observedGeneration": 1, "runtimeId": "76no"}
        metadata = ObjectMeta(name="j", namespace="n", generation=generation)
        return Stored(TF_JOB, metadata, msgspec.json.encode(spec), msgspec.json.encode({"details": details}))

    with pytest.raises(Invalid) as caught:
        TfJobKind().decode(stored(spec, 2))
    assert all(problem.path.startswith("spec.replicaSpecs") for problem in caught.value.problems)
    assert isinstance(caught.value.owner, TFJob)
    assert caught.value.owner.status.attempt == 1
    older = {"replicaSpecs": [{"tfReplicaType": "MASTER", "template": {"spec": {"containers": [{"image": "x"}]}}}]}
    assert TfJobKind().decode(stored({**older, "newer": 1}, 1)).status.attempt == 1, "not by rules that came later"
