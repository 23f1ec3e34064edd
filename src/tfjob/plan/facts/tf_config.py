"""TF_CONFIG, which tells every replica the addresses of its peers, byte for byte as training-operator v1.9 writes it.

There is one intended difference: an evaluator is only in its own `cluster`. A ParameterServerStrategy chief would
otherwise wait forever for a server that an evaluator never starts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from tfjob.api.defaults import server_container, server_port, serves_by_default, training_container
from tfjob.api.dialect import origin
from tfjob.api.names import child_name
from tfjob.api.types import DEFAULT_PORT, EVALUATOR, PORT_NAME, PS, REPLICA_TYPES, TF_CONFIG, WORKER, TFJob
from tfjob.plan.facts.tasks import Task, replicas_of


def tf_configs(job: TFJob, tasks: Iterable[Task], cluster_domain: str = "") -> Iterator[str | None]:
    """Yield the value of TF_CONFIG for each task, None if it gets none."""
    habits = origin(job)
    total = sum(replicas_of(job, replica_type) for replica_type in job.spec.tf_replica_specs)
    always = habits.tf_config_for_one_replica or job.metadata.annotations.get(TF_CONFIG) == "always"
    needed = habits.tf_config and (total != 1 or always)
    shared: dict[bool, str] = {}
    for task in tasks:
        if not needed:
            yield None
            continue
        identity = _compact({"type": task.type.lower(), "index": task.index})
        if job.spec.enable_dynamic_worker:
            yield f'{{"cluster":{_compact(_sparse_cluster(job, task, cluster_domain))},"task":{identity}}}'
            continue
        evaluates = task.type == EVALUATOR
        if evaluates not in shared:
            shared[evaluates] = _compact(cluster(job, cluster_domain, with_evaluator=evaluates))
        yield f'{{"cluster":{shared[evaluates]},"task":{identity},"environment":"cloud"}}'


def address(job: TFJob, task: Task, cluster_domain: str = "") -> str:
    host = origin(job).host.format(
        name=child_name(job, task.type, task.index),
        namespace=job.metadata.namespace,
        domain=f".{cluster_domain}" if cluster_domain else "",
    )
    return f"{host}:{port(job, task.type)}"


def port(job: TFJob, replica_type: str) -> int:
    replica = job.spec.tf_replica_specs.get(replica_type)
    if replica is None:
        return DEFAULT_PORT
    if serves_by_default(job, replica_type, replica) and server_container(replica.template) is None:
        return server_port(job)
    ports = training_container(replica.template).get("ports") or ()
    return next((int(one["containerPort"]) for one in ports if one.get("name") == PORT_NAME), DEFAULT_PORT)


def cluster(job: TFJob, cluster_domain: str = "", *, with_evaluator: bool = False) -> dict[str, list[str]]:
    return {
        replica_type.lower(): [
            address(job, Task(replica_type, index), cluster_domain) for index in range(replicas_of(job, replica_type))
        ]
        for replica_type in sorted(REPLICA_TYPES, key=str.lower)
        if replicas_of(job, replica_type) and (replica_type != EVALUATOR or with_evaluator)
    }


def _sparse_cluster(job: TFJob, task: Task, cluster_domain: str) -> dict[str, Any]:
    """Return the cluster for a task of an elastic job: the task, and for a worker also all parameter servers."""
    servers = [address(job, Task(PS, index), cluster_domain) for index in range(replicas_of(job, PS))]
    own = address(job, task, cluster_domain)
    if task.type == WORKER:
        # v1.9 writes `null`, not an empty list, if there is no parameter server.
        return {"worker": {str(task.index): own}, "ps": servers or None}
    return {"worker": {}, "ps": [own] if task.type == PS else []}


def _compact(value: dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))
