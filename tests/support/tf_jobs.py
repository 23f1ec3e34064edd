"""TfJobs of tensorflow.org in a room: how a test writes them, begins them and looks at them."""

from __future__ import annotations

from typing import Any

from support.room import Room, template
from support.running import wait_until
from tfjob.api.dialect import TF_JOBS
from tfjob.api.resources import PODS

Object = dict[str, Any]


def tf_job(name: str, *replicas: Object, **spec: Any) -> Object:
    """A TfJob as its users write it."""
    return {
        "apiVersion": "tensorflow.org/v1alpha1",
        "kind": "TfJob",
        "metadata": {"name": name},
        "spec": {"replicaSpecs": list(replicas), **spec},
    }


def replica(kind: str, count: int = 1) -> Object:
    """One entry of `replicaSpecs`."""
    return {"replicas": count, "tfReplicaType": kind, "template": template(restartPolicy="OnFailure")}


def begin(team: Room, body: Object, *names: str) -> str:
    """Makes a TfJob, waits for its Jobs and pods, lets them run, and returns its random id."""
    team.make(TF_JOBS, body)
    return begun(team, body["metadata"]["name"], *names)


def begun(team: Room, name: str, *names: str) -> str:
    """Waits for the Jobs and pods of a TfJob, lets them run until its status counts each, and returns its random id."""
    wait_until(lambda: len(pods(team, name)) == len(names), 90, lambda: str(team.find(TF_JOBS, name)))
    assert set(pods(team, name)) == set(names)
    team.runs(*(pod["metadata"]["name"] for pod in pods(team, name).values()))
    until(team, name, phase="Running", state="Running")
    # The master alone makes a job Running: the others may be counted later.
    wait_until(lambda: running(team, name) == len(names), 90, lambda: str(team.find(TF_JOBS, name)))
    runtime_id: str = team.get(TF_JOBS, name)["spec"]["RuntimeId"]
    return runtime_id


def running(team: Room, name: str) -> int:
    """How many replicas of a TfJob run, as its status says."""
    counts = team.get(TF_JOBS, name).get("status", {}).get("replicaStatuses") or []
    return sum(one["ReplicasStates"].get("Running", 0) for one in counts)


def pods(team: Room, job: str) -> dict[str, Object]:
    """The pods of a TfJob by their task, such as `worker-0`, that nobody is deleting."""
    found = team.objects(PODS, f"tf_job_name={job},job_type")
    return {
        f"{one['metadata']['labels']['job_type'].lower()}-{one['metadata']['labels']['task_index']}": one
        for one in found
        if "deletionTimestamp" not in one["metadata"]
    }


def until(team: Room, job: str, **wanted: Any) -> Object:
    """Waits until the status of a TfJob has these values."""
    seen: list[Object] = [{}]

    def look() -> bool:
        seen[0] = team.get(TF_JOBS, job).get("status", {})
        return wanted.items() <= seen[0].items()

    wait_until(look, 90, lambda: str(seen[0]))
    return seen[0]


def is_new(team: Room, job: str, task: str, before: dict[str, Object]) -> bool:
    """Whether another pod has taken the place of one that a task had before."""
    found = pods(team, job).get(task)
    return found is not None and found["metadata"]["uid"] != before[task]["metadata"]["uid"]
