from __future__ import annotations

from typing import Any

import msgspec
import pytest

from support.golden import Wording
from tfjob.api.defaults import with_defaults
from tfjob.api.types import TFJob
from tfjob.api.validation import validate

WORKER = {"template": {"spec": {"containers": [{"image": "tf"}]}}}


def job(name: str = "digits", metadata: dict[str, Any] | None = None, **spec: Any) -> TFJob:
    spec = {"tfReplicaSpecs": {"Worker": WORKER}, **spec}
    return msgspec.convert({"metadata": {"name": name, **(metadata or {})}, "spec": spec}, TFJob)


def pod(**more: Any) -> TFJob:
    spec = {"containers": [{"image": "tf"}], **more}
    return job(tfReplicaSpecs={"Worker": {"template": {"spec": spec}}})


def container(**more: Any) -> TFJob:
    return pod(containers=[{"image": "tf", **more}])


BASE = "spec.tfReplicaSpecs.Worker"
POD = f"{BASE}.template.spec"
ONE = f"{POD}.containers[0]"


def replicas(**types: Any) -> TFJob:
    return job(tfReplicaSpecs=types)


@pytest.mark.parametrize(
    "good",
    [
        job(),
        job("a" * 54),
        replicas(worker=WORKER),
        replicas(Chief={**WORKER, "replicas": 1}, Master={**WORKER, "replicas": 0}, Worker=WORKER),
        replicas(Worker=WORKER, PS={"replicas": 3}),
        replicas(Worker={**WORKER, "replicas": 0}, Chief=WORKER),
        pod(containers=[{"name": "tensorflow", "image": "tf"}, {"name": "side", "image": "tf"}]),
        pod(dnsPolicy="None", dnsConfig={"nameservers": ["10.0.0.10"]}),
        container(name="anything"),
        job(successPolicy="AllWorkers", restartScope="Gang", enableDynamicWorker=True),
        job(runPolicy={"managedBy": "kueue.x-k8s.io/multikueue", "backoffLimit": 0, "ttlSecondsAfterFinished": 0}),
        job(terminationPolicy={"chief": {"replicaName": "WORKER"}}),
        job(metadata={"labels": {"example.org/a": "B_c.d", "empty": ""}}),
        job(metadata={"labels": {"kueue.x-k8s.io/queue-name": "team"}}),
    ],
)
def test_a_good_job_has_no_problems_before_and_after_its_defaults(good: TFJob) -> None:
    assert validate(good) == []
    assert validate(with_defaults(good)) == []


@pytest.mark.parametrize(
    ("bad", "path"),
    [
        (job(""), "metadata.name"),
        (job("1st"), "metadata.name"),
        (job("a.b"), "metadata.name"),
        (job("Été"), "metadata.name"),
        (job("a" * 64), "metadata.name"),
        (job("a" * 55), "metadata.name"),
        (
            job("a" * 53, tfReplicaSpecs={"Worker": {**WORKER, "replicas": 101}}),
            "metadata.name",
        ),
        (
            replicas(Worker={"template": {**WORKER["template"], "metadata": {"labels": {"a": "../b"}}}}),
            f"{BASE}.template.metadata.labels.a",
        ),
        (
            replicas(Worker={"template": {**WORKER["template"], "metadata": {"labels": {"../b": "a"}}}}),
            f'{BASE}.template.metadata.labels["../b"]',
        ),
        (container(command=["true", "a\0b"]), f"{ONE}.command[1]"),
        (container(volumeMounts=[{"mountPath": "/a\0b"}]), f"{ONE}.volumeMounts[0].mountPath"),
        (pod(hostname="a\0b"), f"{POD}.hostname"),
        (job(tfReplicaSpecs={}), "spec.tfReplicaSpecs"),
        (replicas(Worker={**WORKER, "replicas": 0}), "spec.tfReplicaSpecs"),
        (replicas(Worker={**WORKER, "replicas": 2_501}), "spec.tfReplicaSpecs"),
        (replicas(Worker={**WORKER, "replicas": -1}), f"{BASE}.replicas"),
        (replicas(Workers=WORKER), "spec.tfReplicaSpecs.Workers"),
        (replicas(Chief=WORKER, Master=WORKER), "spec.tfReplicaSpecs.Master"),
        (replicas(Chief={**WORKER, "replicas": 2}), "spec.tfReplicaSpecs.Chief"),
        (replicas(chief=WORKER, MASTER=WORKER), "spec.tfReplicaSpecs.MASTER"),
        (replicas(Worker={}), f"{BASE}.template"),
        (replicas(Worker={**WORKER, "restartPolicy": "Sometimes"}), f"{BASE}.restartPolicy"),
        (pod(containers=[]), f"{POD}.containers"),
        (
            pod(containers=[{"name": "a", "image": "x"}, {"name": "b", "image": "x"}]),
            f"{POD}.containers",
        ),
        (pod(containers=[{"image": ""}]), f"{ONE}.image"),
        (container(imagePullPolicy="always"), f"{ONE}.imagePullPolicy"),
        (container(ports=[{"containerPort": 0}]), f"{ONE}.ports[0].containerPort"),
        (container(resources={"limits": {"cpu": "x"}}), f"{ONE}.resources.limits.cpu"),
        (
            container(resources={"limits": {"memory": "1Gi"}, "requests": {"memory": "1025Mi"}}),
            f"{ONE}.resources.requests.memory",
        ),
        (container(volumeMounts=[{"name": "a", "mountPath": "/a"}]), f"{ONE}.volumeMounts[0].name"),
        (pod(initContainers=[{"name": "a"}]), f"{POD}.initContainers[0].image"),
        (pod(activeDeadlineSeconds=0), f"{POD}.activeDeadlineSeconds"),
        (job(runPolicy={"cleanPodPolicy": "all"}), "spec.runPolicy.cleanPodPolicy"),
        (job(runPolicy={"activeDeadlineSeconds": 0}), "spec.runPolicy.activeDeadlineSeconds"),
        (job(runPolicy={"managedBy": "me"}), "spec.runPolicy.managedBy"),
        (job(tensorBoard={"image": "x"}), "spec.tensorBoard.logDir"),
        (job(tensorBoard={"logDir": "s3://l", "image": "A"}), "spec.tensorBoard.image"),
        (
            job(tensorBoard={"logDir": "s3://l", "serviceType": "ExternalName"}),
            "spec.tensorBoard.serviceType",
        ),
        (
            job(metadata={"name": "j" * 52}, tensorBoard={"logDir": "s3://l"}),
            "metadata.name",
        ),
        (job(tfImage="<IMAGE>"), "spec.tfImage"),
        (
            job(terminationPolicy={"chief": {"replicaName": "Chief"}}),
            "spec.terminationPolicy.chief.replicaName",
        ),
        (job(metadata={"namespace": "A"}), "metadata.namespace"),
        (pod(dnsPolicy="None"), f"{POD}.dnsPolicy"),
        (pod(dnsPolicy="ClusterLast"), f"{POD}.dnsPolicy"),
    ],
)
def test_each_rule_finds_its_fault_at_its_path(bad: TFJob, path: str, wording: Wording) -> None:
    found = validate(bad)
    assert [problem.path for problem in found] == [path]
    wording(*found)


def test_a_log_folder_on_no_volume_of_tensorboard_is_a_warning(wording: Wording) -> None:
    """On this machine a program may write anywhere; a pod shares nothing but volumes."""
    (found,) = validate(job(tensorBoard={"logDir": "/logs/run"}))
    assert (found.path, found.warning) == ("spec.tensorBoard.logDir", True)
    wording(found)
    volumes = {"volumes": [{"name": "a"}], "volumeMounts": [{"name": "a", "mountPath": "/logs/"}]}
    assert validate(job(tensorBoard={"logDir": "/logs/run", **volumes})) == []


def test_a_gang_larger_than_the_job_is_a_warning(wording: Wording) -> None:
    """It waits until the job is edited, as v1.9's own end-to-end test does."""
    (found,) = validate(job(runPolicy={"schedulingPolicy": {"minAvailable": 10}}))
    assert (found.path, found.warning) == ("spec.runPolicy.schedulingPolicy.minAvailable", True)
    wording(found)


def test_a_replica_type_that_kueue_does_not_see_is_a_warning(wording: Wording) -> None:
    queue = {"labels": {"kueue.x-k8s.io/queue-name": "team"}}
    (found,) = validate(job(metadata=queue, tfReplicaSpecs={"Worker": WORKER, "ps": WORKER}))
    assert (found.path, found.warning) == ("spec.tfReplicaSpecs.ps", True)
    assert "PS" in found.hint
    wording(found)


def test_a_restart_policy_that_is_not_used_is_a_warning() -> None:
    template = {"spec": {"containers": [{"image": "tf"}], "restartPolicy": "Always"}}
    found = validate(replicas(Worker={"restartPolicy": "Never", "template": template}))
    assert [(problem.path, problem.warning) for problem in found] == [(f"{POD}.restartPolicy", True)]


def test_storage_that_is_neither_shared_nor_kept_is_a_warning() -> None:
    def found(volume: dict[str, object]) -> list[tuple[str, bool | None]]:
        template = {"spec": {"containers": [{"image": "tf"}], "volumes": [volume]}}
        return [(problem.path, problem.warning) for problem in validate(replicas(Worker={"template": template}))]

    assert found({"name": "tfjob-data", "emptyDir": {}}) == [(f"{POD}.volumes[0].emptyDir", True)]
    assert found({"name": "tfjob-data", "persistentVolumeClaim": {"claimName": "a"}}) == []
    assert found({"name": "scratch", "emptyDir": {}}) == []
