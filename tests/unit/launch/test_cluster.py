"""Placeholders and real values in a dry run for a cluster."""

from __future__ import annotations

from typing import Any

from tfjob.kube.submit.submission import Submission
from tfjob.launch.cluster import ClusterJobs, preview

TEMPLATE = {"spec": {"containers": [{"name": "tensorflow", "image": "example.com/train:1"}]}}


def test_an_id_that_the_manifest_asks_for_is_used() -> None:
    spec = {"RuntimeId": "ab12", "replicaSpecs": [{"tfReplicaType": "MASTER", "template": TEMPLATE}]}
    shown = preview(jobs(tf_job({**spec, "tensorboard": {"logDir": "/logs"}})))
    assert [one["metadata"]["name"] for one in shown.objects[1:]] == [
        "master-ab12-0",
        "master-ab12-0",
        "tensorboard-ab12",
        "tensorboard-ab12",
    ]
    assert not shown.undrawn


def test_an_id_that_the_operator_draws_has_a_placeholder() -> None:
    shown = preview(jobs(tf_job({"replicaSpecs": [{"tfReplicaType": "MASTER", "template": TEMPLATE}]})))
    assert shown.undrawn == ["dry"]


def test_a_dry_run_shows_what_a_suspended_job_gets_when_resumed() -> None:
    spec = {"runPolicy": {"suspend": True}, "tfReplicaSpecs": {"Worker": {"replicas": 2, "template": TEMPLATE}}}
    metadata = {"name": "dry", "namespace": "team"}
    job = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": metadata, "spec": spec}
    kinds = [one["kind"] for one in preview(jobs(job)).objects]
    assert kinds == ["TFJob", "Service", "Service", "Pod", "Pod"]


def jobs(manifest: dict[str, Any]) -> ClusterJobs:
    return ClusterJobs(manifest=str, submission=Submission([manifest], [], "default", [[]]))


def tf_job(spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": "dry", "namespace": "team"}
    return {"apiVersion": "tensorflow.org/v1alpha1", "kind": "TfJob", "metadata": metadata, "spec": spec}
