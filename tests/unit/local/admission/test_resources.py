"""What a job asks of this machine's devices."""

from __future__ import annotations

from tfjob.api.objects import ObjectMeta
from tfjob.api.types import PARALLELISM, ReplicaSpec, TFJob, TFJobSpec
from tfjob.local.admission.resources import gpus_asked_for
from tfjob.local.inputs.gpus import RESOURCES


def test_a_job_needs_what_runs_at_once() -> None:
    replica = ReplicaSpec(replicas=5, template={"spec": {"containers": [{"resources": {"limits": {RESOURCES[0]: 2}}}]}})
    whole = TFJob(spec=TFJobSpec(tf_replica_specs={"Worker": replica, "PS": ReplicaSpec(replicas=2)}))
    assert gpus_asked_for(whole) == 10
    of_a_batch = TFJob(metadata=ObjectMeta(annotations={PARALLELISM: "1"}), spec=whole.spec)
    assert gpus_asked_for(of_a_batch) == 2
