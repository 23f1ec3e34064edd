"""Small builders for the manifests of the cases."""

from __future__ import annotations

from typing import Any

Document = dict[str, Any]

SHARED = {"name": "shared", "persistentVolumeClaim": {"claimName": "shared"}}
MOUNT: Document = {"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}


def container(*steps: str, name: str = "tensorflow", **fields: Any) -> Document:
    """A container that does what standin.py is told to."""
    return {"name": name, "image": "standin:1", "command": ["python", "standin.py", *steps], **fields}


def replica(
    *steps: str, count: int = 1, policy: str = "Never", grace: int = 1, volumes: Any = None, **fields: Any
) -> Document:
    """A replica type whose pods do these steps."""
    spec: Document = {"terminationGracePeriodSeconds": grace, "containers": [container(*steps, **fields)]}
    if volumes:
        spec["volumes"] = volumes
    return {"replicas": count, "restartPolicy": policy, "template": {"spec": spec}}


def remembering(*steps: str, **fields: Any) -> Document:
    """A replica type whose pods share a folder, /shared, through all attempts."""
    return replica(*steps, volumes=[SHARED], **MOUNT, **fields)


def tfjob(name: str, replicas: Document, **spec: Any) -> Document:
    """A job."""
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": name},
        "spec": {"tfReplicaSpecs": replicas, **spec},
    }


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
try:
    open('/readonly/x', 'w')
except OSError as error:
    print('read-only:', error.strerror)
else:
    sys.exit('a read-only mount was written to')
print(os.environ['GREETING'])
print('all files as they should be')
"""


def files_job() -> list[Document]:
    """A job with volumes of many kinds, and the objects that they come from."""
    spec = replica(
        volumes=[
            {"name": "empty", "emptyDir": {}},
            {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "4Mi"}},
            {"name": "settings", "configMap": {"name": "settings"}},
            {"name": "password", "secret": {"secretName": "password"}},
            SHARED,
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
    settings = {"rate": "0.1", "alone": "alone"}
    return [
        tfjob("files", {"Worker": spec}),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": settings},
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "password"},
            "stringData": {"password": "correct horse"},
        },
    ]


def several_containers() -> list[Document]:
    """A job whose pod has an init container and one that would go on beside the main one."""
    spec = remembering("until", "/shared/beside", "sleep", "1", "say", "main done")
    pod = spec["template"]["spec"]
    pod["initContainers"] = [container("say", "prepared", name="prepare")]
    pod["containers"].append(
        container("say", "beside", "make", "/shared/beside", "sleep", "3600", name="beside", **MOUNT)
    )
    return [tfjob("several", {"Worker": spec})]


def missing_program(name: str, policy: str) -> list[Document]:
    """A job whose program is not in the image."""
    only = {"name": "tensorflow", "image": "standin:1", "command": ["no-such-program"]}
    return [tfjob(name, {"Worker": {"restartPolicy": policy, "template": {"spec": {"containers": [only]}}}})]


def old_job() -> list[Document]:
    """A job of v1alpha1."""

    def part(kind: str, *steps: str) -> Document:
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
                    part("WORKER", "serve", "meet", "sleep", "3600"),
                ],
            },
        }
    ]


def batch_job() -> list[Document]:
    """A Job of batch/v1."""
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
        *("serve", "meet", "until", "/shared/chief", "first", "/shared/worker", "kill", "SIGKILL", "sleep", "3600"),
        policy="ExitCode",
    ),
}
"""A chief and a worker that meet; the worker is killed once, which takes the chief along."""
