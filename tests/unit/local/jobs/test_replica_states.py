"""Replicas as the commands see them, by what is stored of their pods."""

from __future__ import annotations

from pathlib import Path

from tfjob.api.names import REPLICA_INDEX_LABEL, REPLICA_TYPE_LABEL
from tfjob.api.objects import (
    ContainerState,
    ContainerStatus,
    ContainerWaiting,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodStatus,
)
from tfjob.api.types import ReplicaSpec, TFJob, TFJobSpec
from tfjob.local.jobs.replica_states import replicas
from tfjob.local.state.store import open_store


def test_a_pod_that_waits_and_has_no_process_yet_has_no_pid(tmp_path: Path) -> None:
    """As while its fork server imports TensorFlow."""
    store = open_store(tmp_path / "state.db")
    spec = TFJobSpec(tf_replica_specs={"Worker": ReplicaSpec(replicas=1)})
    job = TFJob(metadata=ObjectMeta(name="mnist", namespace="default"), spec=spec)
    run = store.add_run(job, attached=False, boot="b", folder=lambda number: tmp_path / f"mnist.{number}")
    waiting = ContainerState(waiting=ContainerWaiting(reason="ForkServerStarting"))
    status = PodStatus(phase="Pending", container_statuses=[ContainerStatus(name="tensorflow", state=waiting)])
    owner = OwnerReference(uid=run.uid)
    labels = {REPLICA_TYPE_LABEL: "worker", REPLICA_INDEX_LABEL: "0"}
    metadata = ObjectMeta(name="mnist-worker-0", namespace="default", owner_references=[owner], labels=labels)
    store.create_child(Pod(metadata=metadata, status=status))
    (replica,) = replicas(store, run)
    assert (replica.name, replica.phase, replica.pid) == ("worker-0", "Pending", None)
