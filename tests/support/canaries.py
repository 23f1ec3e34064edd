"""A job that uses a Secret in every way there is, and whether what the Secret holds shows up anywhere."""

from __future__ import annotations

import base64
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from support.command_line import CommandLine
from tfjob.api.objects import LAST_APPLIED

PLAIN, WHOLE, CODED = "canary-plain", "canary-whole", "canary-coded"
VALUES = (PLAIN, WHOLE, CODED)
SECRET: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "access", "annotations": {LAST_APPLIED: f'{{"stringData": {{"plain": "{PLAIN}"}}}}'}},
    "stringData": {"plain": PLAIN, "WHOLE": WHOLE},
    "data": {"CODED": base64.b64encode(CODED.encode()).decode()},
}


def manifest(name: str, *command: str, **mount: str) -> str:
    """The Secret and a job with one worker: its variables, its words, a volume, the key to its image."""
    container = {
        "name": "tensorflow",
        "image": "python:3",
        "command": list(command),
        "args": ["--key=$(PLAIN)", "$(URL)"],
        "env": [
            {"name": "PLAIN", "valueFrom": {"secretKeyRef": {"name": "access", "key": "plain"}}},
            {"name": "URL", "value": "db://me:$(PLAIN)@$(WHOLE)/$(CODED)"},
        ],
        "envFrom": [{"secretRef": {"name": "access"}}],
        "volumeMounts": [{"name": "access", "mountPath": "/access", **mount}],
    }
    pod = {
        "containers": [container],
        "volumes": [{"name": "access", "secret": {"secretName": "access"}}],
        "imagePullSecrets": [{"name": "access"}],
    }
    spec = {"tfReplicaSpecs": {"Worker": {"replicas": 1, "restartPolicy": "Never", "template": {"spec": pod}}}}
    job = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": name}, "spec": spec}
    return yaml.safe_dump_all([SECRET, job])


def shown(cli: CommandLine, name: str, folder: Path) -> Iterator[tuple[str, str]]:
    """What the commands say of a job that there is, with all that they can be asked to say; and its bundle."""
    asked = [("status", name), ("status", name, "-o", "json"), ("events", name, "-o", "json"), ("logs", name)]
    for words in (*asked, ("ps", "-a", "-o", "json")):
        yield " ".join(words), cli(*words, "-v")
    cli("debug-dump", name, "--file", str(folder / "bundle.tar.gz"), "-v")
    with tarfile.open(folder / "bundle.tar.gz") as archive:
        for part in archive:
            file = archive.extractfile(part)
            yield f"debug-dump {part.name}", file.read().decode() if file else ""


def tells(text: str) -> list[str]:
    """The values of the Secret that a text holds, as they are or in base64."""
    coded = [base64.b64encode(value.encode()).decode() for value in VALUES]
    return [value for value in (*VALUES, *coded) if value in text]
