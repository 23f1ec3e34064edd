"""What the caches keep of an object, and what they make of a job that is none."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tfjob.controller.cluster import InvalidJob
from tfjob.kube.cache.decode import CachedJob, decode_job, decode_node, decode_pod, decode_tf_job, job_of

CONTAINER = {"name": "tensorflow", "image": "x:1"}
WORKER = {"Worker": {"template": {"spec": {"containers": [CONTAINER]}}}}


def encoded_job(spec: dict[str, Any], **more: Any) -> bytes:
    metadata = {
        "name": "j",
        "namespace": "n",
        "uid": "u",
        "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}],
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "long", "mine": "kept"},
    }
    return msgspec.json.encode(
        {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": metadata, "spec": spec, **more}
    )


def test_a_job_comes_back_with_its_defaults_and_without_what_nobody_reads() -> None:
    job = job_of(decode_job(encoded_job({"tfReplicaSpecs": WORKER})))
    assert job.spec.tf_replica_specs["Worker"].replicas == 1
    assert job.spec.run_policy.clean_pod_policy == "Running"
    assert job.metadata.annotations == {"mine": "kept"}


def test_replica_types_may_be_spelt_in_any_case() -> None:
    job = job_of(decode_job(encoded_job({"tfReplicaSpecs": {"worker": WORKER["Worker"], "Ps": WORKER["Worker"]}})))
    assert set(job.spec.tf_replica_specs) == {"Worker", "PS"}


def test_a_spec_that_is_none_is_told_with_the_paths_of_its_faults() -> None:
    """A job may be older than our schema, or the schema somebody else's."""
    with pytest.raises(InvalidJob) as caught:
        job_of(decode_job(encoded_job({"tfReplicaSpecs": {"Worker": {"replicas": "many"}}})))
    assert caught.value.job.metadata.uid == "u"
    assert any("replicas" in problem.path for problem in caught.value.problems)


def test_a_broken_spec_keeps_what_can_be_read_of_its_run_policy() -> None:
    """Who manages the job, and what stays of it."""
    policy = {"managedBy": "kueue.x-k8s.io/multikueue", "ttlSecondsAfterFinished": 60, "backoffLimit": "many"}
    with pytest.raises(InvalidJob) as caught:
        job_of(decode_job(encoded_job({"tfReplicaSpecs": WORKER, "runPolicy": policy})))
    kept = caught.value.job.spec.run_policy
    assert (kept.managed_by, kept.ttl_seconds_after_finished) == ("kueue.x-k8s.io/multikueue", 60)


def test_a_status_that_is_not_ours_says_nothing() -> None:
    job = job_of(decode_job(encoded_job({"tfReplicaSpecs": WORKER}, status={"phase": "Done", "conditions": "none"})))
    assert job.status.conditions == []


def test_a_job_that_ended_under_somebody_elses_status_has_ended() -> None:
    """Else it would run again."""
    conditions = [{"type": "Succeeded", "status": "True"}, {"type": 1}]
    job = job_of(decode_job(encoded_job({"tfReplicaSpecs": WORKER}, status={"attempt": "x", "conditions": conditions})))
    assert [condition.type for condition in job.status.conditions] == ["Succeeded"]


EDITS: list[dict[str, Any]] = [
    {"replicaSpecs": [{"tfReplicaType": "MASTER", "tfPrt": 3, "template": {"spec": {"containers": [CONTAINER]}}}]},
    {"replicaSpecs": [{"tfReplicaType": "MASTER", "replicas": "many", "template": {"spec": {}}}]},
    {"replicaSpecs": [{"template": {"spec": {"containers": [CONTAINER]}}}] * 2},
    {"replicaSpecs": "none"},
]


@pytest.mark.parametrize("spec", EDITS, ids=["a misspelt field", "a wrong type", "a type twice", "no list"])
def test_a_tf_job_that_runs_is_judged_again_when_it_is_edited(spec: dict[str, Any]) -> None:
    """By nobody else where there is no webhook: its CRD takes any spec."""

    def stored(spec: dict[str, Any], generation: int) -> CachedJob:
        details = {"attempt": 1, "observedGeneration": 1, "runtimeId": "76no"}
        metadata = {"name": "j", "namespace": "n", "generation": generation}
        return decode_tf_job(msgspec.json.encode({"metadata": metadata, "spec": spec, "status": {"details": details}}))

    with pytest.raises(InvalidJob) as caught:
        job_of(stored(spec, 2))
    assert all(problem.path.startswith("spec.replicaSpecs") for problem in caught.value.problems)
    assert caught.value.job.status.attempt == 1
    older = {"replicaSpecs": [{"tfReplicaType": "MASTER", "template": {"spec": {"containers": [{"image": "x"}]}}}]}
    assert job_of(stored({**older, "newer": 1}, 1)).status.attempt == 1, "not by rules that came later"


def test_a_pod_keeps_of_its_spec_what_decisions_read() -> None:
    spec = {"nodeName": "a", "restartPolicy": "Never", "containers": [CONTAINER], "volumes": [{"name": "v"}]}
    pod = decode_pod(msgspec.json.encode({"metadata": {"name": "p"}, "spec": spec, "status": {"phase": "Running"}}))
    assert pod.spec == {"nodeName": "a", "restartPolicy": "Never"}
    assert pod.status.phase == "Running"


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        ([{"type": "Ready", "status": "True"}], True),
        ([{"type": "Ready", "status": "Unknown"}], False),
        ([{"type": "Ready", "status": "False"}, {"type": "MemoryPressure", "status": "False"}], False),
        ([{"type": "MemoryPressure", "status": "False"}], True),
    ],
)
def test_a_node_is_lost_when_it_says_not_ready_or_nothing_knows(conditions: list[dict[str, str]], ready: bool) -> None:
    node = decode_node(msgspec.json.encode({"metadata": {"name": "n"}, "status": {"conditions": conditions}}))
    assert node.ready is ready
