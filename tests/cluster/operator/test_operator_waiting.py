"""What keeps a job waiting on a real API server: names that are taken, quotas, admission, and how it goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from devcluster.client import Client, KubectlFailed
from support.cluster_golden import check_cluster_golden
from support.operating import operating
from support.room import Room, job, template
from support.running import wait_until
from tfjob.api.resources import PODS, RESOURCE_QUOTAS

Object = dict[str, Any]
GPU = "example.com/gpu"
PRIVILEGED = template(container={"securityContext": {"privileged": True}})
GRACE = 20


@pytest.fixture(scope="module")
def strict(control_plane: Client, quiet_room: Room) -> Iterator[Room]:
    """A namespace with a quota for one resource and a baseline for pods, and an operator with a short patience."""
    place = quiet_room.namespace
    control_plane.kubectl("label", "namespace", place, "pod-security.kubernetes.io/enforce=baseline")
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "gpus"}}
    quiet_room.make(RESOURCE_QUOTAS, {**quota, "spec": {"hard": {f"requests.{GPU}": "1"}}})
    wait_until(lambda: "hard" in quiet_room.get(RESOURCE_QUOTAS, "gpus").get("status", {}), 60)
    wait_until(lambda: not admitted(control_plane, quiet_room, PRIVILEGED["spec"]), 60)
    words = (f"--namespace={place}", f"--pending-grace={GRACE}s")
    with operating(control_plane.kubeconfig, *words, durations={"rejection_retry": 1}):
        yield quiet_room


def admitted(cluster: Client, team: Room, spec: Object) -> bool:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"}, "spec": spec}
    try:
        cluster.kubectl("create", "--dry-run=server", "-n", team.namespace, "-f", "-", stdin=json.dumps(pod))
    except KubectlFailed:
        return False
    return True


def test_a_taken_name_and_a_full_quota_keep_a_job_waiting_and_no_longer_than_they_last(strict: Room) -> None:
    """Both are tried again and again; neither ends a job, however long it takes."""
    foreign = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "taken-worker-1"}, **template()}
    strict.create(foreign)
    uid = strict.get(PODS, "taken-worker-1")["metadata"]["uid"]
    gpu = template(container={"resources": {"limits": {GPU: 1}}})
    strict.create(job("taken", worker=2), job("hungry", worker={"replicas": 2, "template": gpu}))

    strict.until_pods("taken", "worker-0")
    strict.runs("taken-worker-0")
    status = strict.until("taken", reason="NameTaken")
    assert "taken-worker-1" in status["message"]
    check_cluster_golden("operator-name-taken", status["message"])
    strict.until_event("taken", "FailedCreatePod")
    wait_until(lambda: len(strict.pods("hungry")) == 1, 60)
    strict.runs(*(f"hungry-{fits}" for fits in strict.pods("hungry")))
    status = strict.until("hungry", reason="QuotaExceeded", ready="1/2")
    assert "exceeded quota: gpus" in status["message"]

    found = strict.get(PODS, "taken-worker-1")["metadata"]
    assert found["uid"] == uid
    assert "ownerReferences" not in found
    strict.delete(PODS, "taken-worker-1")
    strict.patch(RESOURCE_QUOTAS, "gpus", {"spec": {"hard": {f"requests.{GPU}": "2"}}})
    strict.all_run("taken", "worker-0", "worker-1")
    assert strict.uids("taken")["worker-1"] != uid
    strict.all_run("hungry", "worker-0", "worker-1")


def test_a_pod_that_admission_denies_is_waited_for_and_then_ends_the_job(strict: Room) -> None:
    strict.create(job("denied", worker={"template": PRIVILEGED}))
    status = strict.until("denied", "Pending", reason="Denied")
    assert "violates PodSecurity" in status["message"]
    status = strict.until("denied", "Failed")
    assert (status["reason"], status["failure"]["replica"]) == ("Denied", "worker-0")
    assert "privileged" in status["message"]
    assert not strict.pods("denied")


def test_an_image_that_is_not_found_is_waited_for_and_then_ends_the_job(strict: Room) -> None:
    strict.create(job("imageless", worker=1))
    strict.until_pods("imageless", "worker-0")
    strict.waits("imageless-worker-0", "ImagePullBackOff", "Back-off pulling image")
    strict.until("imageless", "Pending", reason="ImagePullBackOff")
    assert strict.until("imageless", "Failed")["reason"] == "ImagePullBackOff"
    strict.until_pods("imageless")
