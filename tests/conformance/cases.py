"""Conformance cases: what a cluster must do with a job, written once for every cluster that runs TFJobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from conformance.checks import (
    Outcome,
    both,
    bounded,
    failed,
    said,
    said_times,
    sooner_than,
    succeeded,
    task_restarts,
)

Manifest = list[dict[str, Any]]


@dataclass(frozen=True)
class Case:
    """A manifest and what must come of it. `levels` names those of the local cluster that can do it at all."""

    name: str
    documents: Manifest
    check: Callable[[Outcome], None]
    levels: tuple[str, ...] = ("full", "addresses", "ports")
    options: tuple[str, ...] = field(default=())


def container(*steps: str, name: str = "tensorflow", **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": "standin:1", "command": ["python", "standin.py", *steps], **fields}


def replica(
    *steps: str, count: int = 1, policy: str = "Never", grace: int = 1, volumes: Any = None, **fields: Any
) -> dict[str, Any]:
    spec: dict[str, Any] = {"terminationGracePeriodSeconds": grace, "containers": [container(*steps, **fields)]}
    if volumes:
        spec["volumes"] = volumes
    return {"replicas": count, "restartPolicy": policy, "template": {"spec": spec}}


def tfjob(name: str, replicas: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": name},
        "spec": {"tfReplicaSpecs": replicas, **spec},
    }


SHARED = {"name": "shared", "persistentVolumeClaim": {"claimName": "shared"}}
MOUNT: dict[str, Any] = {"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}


def remembering(*steps: str, **fields: Any) -> dict[str, Any]:
    """A replica that can tell its first attempt from the next."""
    return replica(*steps, volumes=[SHARED], **MOUNT, **fields)


FILES = """
import os, sys
assert open('/data/deep/empty/made', 'w').write('x') == 1
assert open('/settings/rate').read() == '0.1', 'configMap'
assert open('/one/file.txt').read() == 'alone', 'configMap subPath'
assert open('/secret/password').read() == 'correct horse', 'secret'
assert open('/claims/kept', 'w').write('x') == 1
assert open('/part/inside', 'w').write('x') == 1
assert os.path.exists('/claims/part/inside'), 'subPath'
assert open('/memory/fast', 'w').write('x') == 1
assert os.environ['PASSWORD'] == 'correct horse', 'secretKeyRef'
assert os.environ['RATE'] == '0.1', 'configMapKeyRef'
assert os.environ['GREETING'] == 'hello files-worker-0 in default', os.environ['GREETING']
try:
    open('/readonly/x', 'w')
except OSError as error:
    print('read-only:', error.strerror)
else:
    sys.exit('a read-only mount was written to')
print('all files as they should be')
"""


def files_job() -> Manifest:
    spec = replica(
        volumes=[
            {"name": "empty", "emptyDir": {}},
            {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "4Mi"}},
            {"name": "settings", "configMap": {"name": "settings"}},
            {"name": "password", "secret": {"secretName": "password"}},
            {"name": "shared", "persistentVolumeClaim": {"claimName": "shared"}},
        ]
    )
    main = spec["template"]["spec"]["containers"][0]
    main["command"] = ["python", "-c", FILES]
    main["volumeMounts"] = [
        {"name": "empty", "mountPath": "/data/deep/empty"},
        {"name": "memory", "mountPath": "/memory"},
        {"name": "settings", "mountPath": "/settings"},
        {"name": "settings", "mountPath": "/one/file.txt", "subPath": "alone"},
        {"name": "password", "mountPath": "/secret"},
        {"name": "shared", "mountPath": "/claims"},
        {"name": "shared", "mountPath": "/part", "subPath": "part"},
        {"name": "shared", "mountPath": "/readonly", "readOnly": True},
    ]
    main["env"] = [
        {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "password", "key": "password"}}},
        {"name": "RATE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "rate"}}},
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "SPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
        {"name": "GREETING", "value": "hello $(POD) in $(SPACE)"},
    ]
    return [
        tfjob("files", {"Worker": spec}),
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "settings"},
            "data": {"rate": "0.1", "alone": "alone"},
        },
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "password"},
            "stringData": {"password": "correct horse"},
        },
    ]


def several_containers() -> Manifest:
    spec = replica("sleep", "0.3", "say", "main done")
    pod = spec["template"]["spec"]
    pod["initContainers"] = [container("say", "prepared", name="prepare")]
    pod["containers"].append(container("say", "beside", "sleep", "30", name="beside"))
    return [tfjob("several", {"Worker": spec})]


def old_job() -> Manifest:
    def part(kind: str, *steps: str) -> dict[str, Any]:
        pod = {
            "restartPolicy": "OnFailure",
            "terminationGracePeriodSeconds": 1,
            "containers": [container(*steps)],
        }
        return {"tfReplicaType": kind, "tfPort": 3333, "template": {"spec": pod}}

    return [
        {
            "apiVersion": "tensorflow.org/v1alpha1",
            "kind": "TfJob",
            "metadata": {"name": "old"},
            "spec": {
                "RuntimeId": "76no",
                "replicaSpecs": [
                    part("MASTER", "config", "serve", "meet", "sleep", "1", "say", "done"),
                    part("WORKER", "serve", "meet", "sleep", "30"),
                ],
            },
        }
    ]


def batch_job() -> Manifest:
    pod = {"restartPolicy": "Never", "containers": [container("say", "a piece of work", "config")]}
    return [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "pieces"},
            "spec": {"completions": 3, "parallelism": 2, "template": {"spec": pod}},
        }
    ]


GANG = {
    "Chief": remembering("serve", "meet", "once", "/shared/chief", "follow", policy="ExitCode"),
    "Worker": remembering(
        "serve", "meet", "sleep", "1", "once", "/shared/worker", "kill", "SIGKILL", policy="ExitCode"
    ),
}

CASES = [
    Case(
        "a chief's exit 0 ends the job though workers and servers run on",
        [
            tfjob(
                "chief",
                {
                    "Chief": replica("sleep", "0.2"),
                    "Worker": replica("sleep", "60", count=2),
                    "PS": replica("deaf", "sleep", "60"),
                },
            )
        ],
        both(succeeded("chief-0 exited 0"), sooner_than(40)),
    ),
    Case(
        "without a chief worker 0 decides",
        [tfjob("first", {"Worker": replica("sleep", "0.2", count=1), "PS": replica("sleep", "60")})],
        succeeded("worker-0 exited 0"),
    ),
    Case(
        "successPolicy AllWorkers waits for every worker",
        [tfjob("everyone", {"Worker": replica("sleep", "0.2", "say", "done", count=3)}, successPolicy="AllWorkers")],
        both(succeeded("all 3 worker replicas exited 0"), said("worker-2", "done")),
    ),
    Case(
        "a single replica gets no TF_CONFIG",
        [tfjob("single", {"Worker": replica("config")})],
        both(succeeded("worker-0 exited 0"), said("worker-0", "no TF_CONFIG")),
    ),
    Case(
        "every replica listens on the port of TF_CONFIG and finds every peer there",
        [
            tfjob(
                "peers",
                {
                    "Chief": replica("serve", "meet", "sleep", "1"),
                    "Worker": replica("serve", "meet", "sleep", "30", count=2),
                    "PS": replica("serve", "meet", "sleep", "30"),
                },
            )
        ],
        both(succeeded("chief-0 exited 0"), said("chief-0", "met 3")),
    ),
    Case(
        "a program that exits 3 fails the job, with its last line as the verdict",
        [tfjob("three", {"Worker": replica("say", "no such column: age", "exit", "3")})],
        failed("worker-0", 3, last="no such column: age"),
    ),
    Case(
        "a missing program fails the job and names it",
        [
            tfjob(
                "missing",
                {
                    "Worker": {
                        **replica(),
                        "template": {
                            "spec": {
                                "containers": [{"name": "tensorflow", "image": "x:1", "command": ["no-such-program"]}]
                            }
                        },
                    }
                },
            )
        ],
        failed("worker-0", 127, reason="StartError"),
    ),
    Case(
        "under Never a killed replica fails the job",
        [tfjob("never", {"Worker": replica("kill", "SIGKILL")})],
        failed("worker-0", 137, signal="SIGKILL"),
    ),
    Case(
        "under ExitCode a signal is tried again",
        [tfjob("again", {"Worker": remembering("once", "/shared/again", "kill", "SIGTERM", policy="ExitCode")})],
        succeeded("worker-0 exited 0", restarts=1),
    ),
    Case(
        "under ExitCode a code below 128 is final",
        [tfjob("final", {"Worker": replica("exit", "1", policy="ExitCode")})],
        failed("worker-0", 1),
    ),
    Case(
        "under OnFailure the replica restarts in place",
        [tfjob("place", {"Worker": remembering("once", "/shared/place", "exit", "1", policy="OnFailure")})],
        succeeded("worker-0 exited 0", restarts=1),
    ),
    Case(
        "a killed member takes the whole gang with it, and all start again",
        [tfjob("gang", GANG)],
        both(succeeded("chief-0 exited 0", restarts=1), task_restarts()),
    ),
    Case(
        "a member killed after another one exited 0 makes both run again",
        [
            tfjob(
                "late",
                {
                    "Chief": remembering("say", "trained", "sleep", "0.1"),
                    "Worker": remembering("sleep", "1.5", "once", "/shared/late", "kill", "SIGKILL", policy="ExitCode"),
                },
                terminationPolicy={"chief": {"replicaName": "Worker", "replicaIndex": 0}},
            )
        ],
        both(succeeded("worker-0 exited 0", restarts=1), said_times("chief-0", "trained", 2)),
    ),
    Case(
        "with parameter servers a lost worker restarts alone",
        [
            tfjob(
                "alone",
                {
                    "Chief": remembering("sleep", "2.5"),
                    "PS": replica("sleep", "60"),
                    "Worker": remembering("once", "/shared/alone", "kill", "SIGKILL", policy="ExitCode"),
                },
            )
        ],
        both(succeeded("chief-0 exited 0", restarts=1), task_restarts(worker_0=1)),
    ),
    Case(
        "backoffLimit counts restarts and ends the job",
        [
            tfjob(
                "limit",
                {"Worker": replica("kill", "SIGUSR1", policy="ExitCode")},
                runPolicy={"backoffLimit": 1, "activeDeadlineSeconds": 60},
            )
        ],
        both(failed("worker-0", 138, signal="SIGUSR1"), bounded),
    ),
    Case(
        "activeDeadlineSeconds ends the job on time",
        [tfjob("deadline", {"Worker": replica("sleep", "60")}, runPolicy={"activeDeadlineSeconds": 1})],
        both(failed("", None, reason="DeadlineExceeded"), sooner_than(40)),
    ),
    Case(
        "a replica over its memory limit is OOMKilled",
        [tfjob("hungry", {"Worker": replica("eat", "400", "sleep", "60", resources={"limits": {"memory": "100Mi"}})})],
        failed("worker-0", 137, signal="SIGKILL", reason="OOMKilled"),
    ),
    Case(
        "volumes and variables come as the manifest says", files_job(), succeeded("worker-0 exited 0"), levels=("full",)
    ),
    Case(
        "paths of volumes are rewritten in commands where nothing can be mounted",
        [tfjob("paths", {"Worker": remembering("once", "/shared/first", "say", "made", "exit", "0")})],
        both(succeeded("worker-0 exited 0"), said("worker-0", "made")),
    ),
    Case(
        "an init container goes first, and the main container's end is the replica's",
        several_containers(),
        both(
            succeeded("worker-0 exited 0"),
            said("worker-0/prepare", "prepared"),
            said("worker-0/beside", "beside"),
            sooner_than(25),
        ),
    ),
    Case(
        "a v1alpha1 job runs with its own port, names and TF_CONFIG",
        old_job(),
        both(succeeded("master-0 exited 0"), said("master-0", "done")),
    ),
    Case(
        "a batch/v1 Job runs all of its completions",
        batch_job(),
        both(succeeded("all 3 worker replicas exited 0"), said("worker-2", "no TF_CONFIG")),
    ),
]
