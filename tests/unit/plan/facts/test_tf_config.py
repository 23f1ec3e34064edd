"""TF_CONFIG to the byte, for each shape of a job."""

from __future__ import annotations

from typing import Any

import pytest

from support.plan.builders import job, task, template, tf_config
from tfjob.api.dialect import BATCH
from tfjob.api.types import RUNTIME_ID
from tfjob.plan.facts.tf_config import address, tf_configs

PORT_2000 = template(ports=[{"name": "tfjob-port", "containerPort": 2000}])
MW = {"chief": 1, "worker": 2}
MW_CLUSTER = (
    '{"chief":["mnist-chief-0.default.svc:2222"],'
    '"worker":["mnist-worker-0.default.svc:2222","mnist-worker-1.default.svc:2222"]}'
)
PS_CLUSTER = (
    '{"chief":["mnist-chief-0.default.svc:2222"],"ps":["mnist-ps-0.default.svc:2222"],'
    '"worker":["mnist-worker-0.default.svc:2222"]}'
)
PS = {"chief": 1, "worker": 1, "ps": 1, "evaluator": 1}

CASES: list[tuple[str, dict[str, Any], str, str | None]] = [
    ("chief", MW, "chief-0", f'{{"cluster":{MW_CLUSTER},"task":{{"type":"chief","index":0}},"environment":"cloud"}}'),
    (
        "worker",
        MW,
        "worker-1",
        f'{{"cluster":{MW_CLUSTER},"task":{{"type":"worker","index":1}},"environment":"cloud"}}',
    ),
    ("ps", PS, "ps-0", f'{{"cluster":{PS_CLUSTER},"task":{{"type":"ps","index":0}},"environment":"cloud"}}'),
    (
        "a chief does not see the evaluator",
        PS,
        "chief-0",
        f'{{"cluster":{PS_CLUSTER},"task":{{"type":"chief","index":0}},"environment":"cloud"}}',
    ),
    (
        "an evaluator sees itself",
        {"worker": 1, "evaluator": 1},
        "evaluator-0",
        '{"cluster":{"evaluator":["mnist-evaluator-0.default.svc:2222"],"worker":["mnist-worker-0.default.svc:2222"]},'
        '"task":{"type":"evaluator","index":0},"environment":"cloud"}',
    ),
    (
        "a master keeps its name",
        {"master": 1, "worker": 1},
        "master-0",
        '{"cluster":{"master":["mnist-master-0.default.svc:2222"],"worker":["mnist-worker-0.default.svc:2222"]},'
        '"task":{"type":"master","index":0},"environment":"cloud"}',
    ),
    (
        "the port of its type",
        {"worker": 2, "pod_template": PORT_2000},
        "worker-0",
        '{"cluster":{"worker":["mnist-worker-0.default.svc:2000","mnist-worker-1.default.svc:2000"]},'
        '"task":{"type":"worker","index":0},"environment":"cloud"}',
    ),
    ("a single replica needs none", {"worker": 1}, "worker-0", None),
    ("replicas that were left out are one", {"worker": None}, "worker-0", None),
    ("a type without replicas is not in the cluster", {"worker": 1, "ps": 0}, "worker-0", None),
    (
        "dynamic worker",
        {"worker": 2, "ps": 2, "enable_dynamic_worker": True},
        "worker-1",
        '{"cluster":{"worker":{"1":"mnist-worker-1.default.svc:2222"},'
        '"ps":["mnist-ps-0.default.svc:2222","mnist-ps-1.default.svc:2222"]},"task":{"type":"worker","index":1}}',
    ),
    (
        "dynamic worker without parameter servers",
        {"worker": 2, "enable_dynamic_worker": True},
        "worker-0",
        '{"cluster":{"worker":{"0":"mnist-worker-0.default.svc:2222"},"ps":null},"task":{"type":"worker","index":0}}',
    ),
    (
        "parameter server of dynamic workers",
        {"worker": 2, "ps": 2, "enable_dynamic_worker": True},
        "ps-1",
        '{"cluster":{"worker":{},"ps":["mnist-ps-1.default.svc:2222"]},"task":{"type":"ps","index":1}}',
    ),
    (
        "chief of dynamic workers",
        {"chief": 1, "worker": 2, "ps": 1, "enable_dynamic_worker": True},
        "chief-0",
        '{"cluster":{"worker":{},"ps":[]},"task":{"type":"chief","index":0}}',
    ),
    (
        "v1beta2 also for one",
        {"worker": 1, "origin": "kubeflow.org/v1beta2"},
        "worker-0",
        '{"cluster":{"worker":["mnist-worker-0.default.svc:2222"]},'
        '"task":{"type":"worker","index":0},"environment":"cloud"}',
    ),
    (
        "v1beta1 also for one",
        {"worker": 1, "origin": "kubeflow.org/v1beta1"},
        "worker-0",
        '{"cluster":{"worker":["mnist-worker-0.default.svc:2222"]},'
        '"task":{"type":"worker","index":0},"environment":"cloud"}',
    ),
    (
        "v1alpha2 with bare names",
        {"worker": 1, "ps": 1, "origin": "kubeflow.org/v1alpha2"},
        "ps-0",
        '{"cluster":{"ps":["mnist-ps-0:2222"],"worker":["mnist-worker-0:2222"]},'
        '"task":{"type":"ps","index":0},"environment":"cloud"}',
    ),
    (
        "kubeflow.org/v1alpha1 with the names of v1",
        {"master": 1, "origin": "kubeflow.org/v1alpha1", "annotations": {RUNTIME_ID: "ab12"}},
        "master-0",
        '{"cluster":{"master":["mnist-master-0:2222"]},"task":{"type":"master","index":0},"environment":"cloud"}',
    ),
    (
        "tensorflow.org/v1alpha1 without the job's name",
        {"master": 1, "ps": 1, "origin": "tensorflow.org/v1alpha1", "annotations": {RUNTIME_ID: "ab12"}},
        "ps-0",
        '{"cluster":{"master":["master-ab12-0:2222"],"ps":["ps-ab12-0:2222"]},'
        '"task":{"type":"ps","index":0},"environment":"cloud"}',
    ),
    ("a batch/v1 Job has none", {"worker": 3, "origin": BATCH}, "worker-0", None),
]


@pytest.mark.parametrize(("shape", "name", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_tf_config_is(shape: dict[str, Any], name: str, expected: str | None) -> None:
    assert tf_config(job(**shape), task(name)) == expected


def test_the_operators_cluster_domain_ends_the_host_name() -> None:
    assert address(job(worker=2), task("worker-0"), "tf.training.org") == (
        "mnist-worker-0.default.svc.tf.training.org:2222"
    )
    assert tf_config(job(worker=2), task("worker-0"), "cluster.local") == (
        '{"cluster":{"worker":["mnist-worker-0.default.svc.cluster.local:2222",'
        '"mnist-worker-1.default.svc.cluster.local:2222"]},"task":{"type":"worker","index":0},"environment":"cloud"}'
    )


def test_many_at_once_are_what_each_alone_is() -> None:
    owner = job(chief=1, worker=2, evaluator=1)
    tasks = [task(name) for name in ("chief-0", "evaluator-0", "worker-0", "worker-1")]
    assert list(tf_configs(owner, tasks)) == [tf_config(owner, one) for one in tasks]
