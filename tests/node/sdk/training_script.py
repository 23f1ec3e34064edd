"""What a user of `kubeflow-training` does with TFJobs; runs in a virtualenv of its own and prints what it got as JSON.

python training_script.py KUBECONFIG NAMESPACE IMAGE
"""

from __future__ import annotations

import json
import sys
from typing import Any

from kubeflow.training import (  # type: ignore[import-not-found]
    KubeflowOrgV1ReplicaSpec,
    KubeflowOrgV1RunPolicy,
    KubeflowOrgV1TFJob,
    KubeflowOrgV1TFJobSpec,
    TrainingClient,
)
from kubeflow.training.constants import constants  # type: ignore[import-not-found]
from kubernetes.client import (  # type: ignore[import-not-found]
    V1Container,
    V1ObjectMeta,
    V1PodSpec,
    V1PodTemplateSpec,
)

POLLING_SECONDS = 1
PATIENCE_SECONDS = 120


def main(kubeconfig: str, namespace: str, image: str) -> None:
    client = TrainingClient(config_file=kubeconfig, namespace=namespace, job_kind=constants.TFJOB_KIND)
    found = {"finished": finish(client, image), "resumed": resume(client, image), "failed": fail(client, image)}
    print(json.dumps(found))


def finish(client: Any, image: str) -> dict[str, Any]:
    """The steps of v1.9's own end-to-end test, to the deletion."""
    name = "sdk"
    client.create_job(job(client, name, image, "echo trained"))
    waited = wait(client, name)
    logs, events = client.get_job_logs(name, verbose=True)
    found = {
        "waited": conditions(client, waited),
        "is": states(client, name),
        "workers": client.get_job(name).status.replica_statuses["Worker"].succeeded,
        "listed": [one.metadata.name for one in client.list_jobs()],
        "pods": client.get_job_pod_names(name),
        "master": client.get_job_pod_names(name, is_master=True),
        "first worker": client.get_job_pod_names(name, replica_type="worker", replica_index=0),
        "logs": logs,
        "events of": sorted(events),
    }
    client.delete_job(name)
    return {**found, "left": [one.metadata.name for one in client.list_jobs()]}


def resume(client: Any, image: str) -> dict[str, Any]:
    """A job that waits until a patch lets it run."""
    name, waiting = "patched", job(client, "patched", image, "echo resumed", suspend=True)
    client.create_job(waiting)
    client.wait_for_job_conditions(
        name,
        expected_conditions={constants.JOB_CONDITION_CREATED},
        wait_timeout=PATIENCE_SECONDS,
        polling_interval=POLLING_SECONDS,
    )
    before = client.get_job_pod_names(name)
    waiting.spec.run_policy.suspend = False
    client.update_job(waiting, name)
    wait(client, name)
    return {"before": before, "after": client.get_job_pod_names(name), "logs": client.get_job_logs(name)[0]}


def fail(client: Any, image: str) -> dict[str, Any]:
    """A job that fails while somebody waits for its success."""
    client.create_job(job(client, "failing", image, "echo oops; exit 3"))
    try:
        wait(client, "failing")
    except RuntimeError as error:
        return {"error": str(error), "is": states(client, "failing")}
    return {"error": "none"}


def job(client: Any, name: str, image: str, script: str, *, suspend: bool | None = None) -> Any:
    """One worker that never restarts."""
    container = V1Container(
        name=constants.JOB_PARAMETERS[constants.TFJOB_KIND]["container"],
        image=image,
        image_pull_policy="IfNotPresent",
        command=["sh", "-c", script],
    )
    worker = KubeflowOrgV1ReplicaSpec(
        replicas=1, restart_policy="Never", template=V1PodTemplateSpec(spec=V1PodSpec(containers=[container]))
    )
    policy = KubeflowOrgV1RunPolicy(clean_pod_policy="None", suspend=suspend)
    return KubeflowOrgV1TFJob(
        api_version=constants.API_VERSION,
        kind=constants.TFJOB_KIND,
        metadata=V1ObjectMeta(name=name, namespace=client.namespace),
        spec=KubeflowOrgV1TFJobSpec(run_policy=policy, tf_replica_specs={"Worker": worker}),
    )


def wait(client: Any, name: str) -> Any:
    """Waits for the success of a job."""
    return client.wait_for_job_conditions(name, wait_timeout=PATIENCE_SECONDS, polling_interval=POLLING_SECONDS)


def conditions(client: Any, found: Any) -> dict[str, str]:
    """The conditions of a job."""
    return {one.type: one.status for one in client.get_job_conditions(job=found)}


def states(client: Any, name: str) -> dict[str, bool]:
    """What the client says that a job is."""
    return {
        "created": client.is_job_created(name),
        "running": client.is_job_running(name),
        "restarting": client.is_job_restarting(name),
        "succeeded": client.is_job_succeeded(name),
        "failed": client.is_job_failed(name),
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
