"""A deletion that the API server leaves half done: the operator finishes it and depends on no other controller."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from signal import SIGKILL
from typing import Any

import pytest

from devcluster.client import Client, KubectlFailed
from support.operating import operating
from support.room import PATIENCE, Room, job
from support.running import wait_until
from tfjob.api.resources import PODS

pytestmark = pytest.mark.faults

Object = dict[str, Any]
TASKS = ("chief-0", "worker-0")
PROBE = "probe"
REFUSED = "the second write is refused"
SOON = {"repeat_deletion": [1, 2]}
"""Seconds until a deletion is repeated."""


@contextmanager
def second_writes_refused(cluster: Client, place: Room) -> Iterator[None]:
    """Stops every deletion of a pod in a namespace between its two writes.

    The API server deletes a pod that has ended in two writes: it sets the deletion timestamp, then removes the object.
    It asks for admission before each of them, so a policy that looks at the timestamp refuses the second alone. What is
    left is what the death of a client in between leaves.
    """
    api, name = "admissionregistration.k8s.io/v1", f"cut-short.{place.namespace}"
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["pods"]}]
    namespaces = {"matchLabels": {"kubernetes.io/metadata.name": place.namespace}}
    policy = {
        "matchConstraints": {"resourceRules": rules, "namespaceSelector": namespaces},
        "validations": [{"expression": "!has(oldObject.metadata.deletionTimestamp)", "message": REFUSED}],
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    cluster.apply(
        {"apiVersion": api, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": policy},
        {"apiVersion": api, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name}, "spec": binding},
    )
    try:
        place.create(probe())
        # The policy holds a moment after it was made: until then the probe goes.
        wait_until(lambda: not goes(cluster, place), 60)
        yield
    finally:
        cluster.kubectl("delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", name)
        wait_until(lambda: goes(cluster, place), 60)


def goes(cluster: Client, place: Room) -> bool:
    """Deletes the probe and returns whether it went; if so, another one takes its place."""
    try:
        cluster.kubectl("delete", "pod", PROBE, "-n", place.namespace, "--wait=false")
    except KubectlFailed as error:
        if REFUSED in str(error):
            return False
        raise
    place.create(probe())
    return True


def probe() -> Object:
    spec = {"containers": [{"name": "main", "image": "example.com/none:1"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": PROBE}, "spec": spec}


def are_leaving(pods: dict[str, Object]) -> bool:
    return all("deletionTimestamp" in one["metadata"] for one in pods.values())


def test_a_deletion_that_was_cut_short_is_repeated(control_plane: Client, quiet_room: Room) -> None:
    place = f"--namespace={quiet_room.namespace}"
    with second_writes_refused(control_plane, quiet_room):
        with operating(control_plane.kubeconfig, place) as operator:
            quiet_room.create(job("cut", policy="ExitCode", chief=1, worker=1))
            quiet_room.all_run("cut", *TASKS)
            old = quiet_room.uids("cut")
            quiet_room.ends("cut-worker-0", 137)
            wait_until(lambda: are_leaving(quiet_room.pods("cut")), 60)
            operator.end(SIGKILL)
        assert quiet_room.uids("cut") == old
    left = quiet_room.get(PODS, "cut-worker-0")
    assert (left["status"]["phase"], left["metadata"]["deletionGracePeriodSeconds"]) == ("Failed", 0)
    assert not left["metadata"].get("finalizers")

    with operating(control_plane.kubeconfig, place, durations=SOON):
        wait_until(
            lambda: not set(old.values()) & set(quiet_room.uids("cut").values()),
            PATIENCE,
            lambda: f"the old pods are still there, status {quiet_room.status('cut')}",
        )
        quiet_room.all_run("cut", *TASKS)
        event = quiet_room.until_event("cut", "RepeatedDelete")
    assert event["type"] == "Warning"
    assert quiet_room.status("cut")["restarts"] == 1
