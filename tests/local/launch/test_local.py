"""A dry run shows exactly what a run creates, with real drivers and processes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from support.command_line import MANIFESTS, CommandLine
from support.installed import Installed
from support.running import wait_until
from tfjob.api.objects import PEAK_MEMORY, ConfigMap, Deployment, Object, Pod, Service
from tfjob.controller.kind import Key
from tfjob.launch import local
from tfjob.launch.request import Request
from tfjob.local.jobs.runs import job_of
from tfjob.local.run.pod_folder import pod_folder
from tfjob.local.state.home import Home
from tfjob.local.state.store import Run, Store, open_store
from tfjob.local.warm.start import HOW

MANIFEST = """
apiVersion: v1
kind: Secret
metadata: {name: access}
stringData: {password: hunter2}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {COLOUR: blue}
---
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: shown}
spec:
  tensorBoard: {logDir: /logs}
  tfReplicaSpecs:
    PS: {}
    Worker:
      replicas: 2
      template:
        spec:
          terminationGracePeriodSeconds: 1
          initContainers:
          - {name: fetch, image: example.com/fetch, command: ["true"]}
          containers:
          - name: tensorflow
            image: example.com/worker
            command: [sleep, "${seconds}"]
            envFrom: [{configMapRef: {name: settings}}]
            env: [{name: PASSWORD, valueFrom: {secretKeyRef: {name: access, key: password}}}]
            resources: {limits: {cpu: 500m, memory: 64Mi}}
            volumeMounts: [{name: data, mountPath: /data}, {name: settings, mountPath: /etc/settings}]
          volumes:
          - {name: data, persistentVolumeClaim: {claimName: data}}
          - {name: settings, configMap: {name: settings}}
"""
SLEEPER = "#!/bin/sh\ntrap exit TERM\nsleep 60 & wait\n"
COUNT_READS = """
import sys
reads = []
def count(event, args):
    if event == "open" and str(args[0]).endswith("tfjob.toml"):
        reads.append(args[0])
sys.addaudithook(count)
from tfjob.__main__ import main
try:
    main()
finally:
    print("reads:", len(reads), file=sys.stderr)
"""


@pytest.fixture
def cli(tool: Installed, tmp_path: Path) -> Iterator[CommandLine]:
    line = CommandLine(tool, tmp_path / "home")
    yield line
    line.end()


def test_a_run_creates_what_a_dry_run_shows(cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for Python keeps the parameter server waiting instead of loading TensorFlow."""
    (tmp_path / "python").write_text(SLEEPER)
    (tmp_path / "python").chmod(0o755)
    (tmp_path / "tfjob.toml").write_text('[images."*"]\npython = "./python"\n')
    file = tmp_path / "shown.yaml"
    file.write_text(MANIFEST)
    for name, value in cli.environment().items():
        monkeypatch.setenv(name, value)
    prepared = local.prepare(Request(str(file), parameters=["seconds=60"], warm=False))
    (submission,) = prepared.submissions
    (processes,) = local.processes(prepared)

    cli("submit", str(file), "-p", "seconds=60", "--cold")

    store = open_store(Home(cli.home).database)
    try:
        run = store.current(Key("default", "shown", "TFJob"))
        assert run is not None
        assert plain(job_of(run)) == plain(submission.owner)
        assert store.object(Key("default", "settings", "ConfigMap")) == submission.objects[1]
        expected = sorted(map(plain, local.children(submission)), key=name_of)
        assert {one["kind"] for one in expected} == {"Pod", "Service", "ConfigMap", "Deployment"}
        wait_until(lambda: len(created(store, run)) == len(expected), 60)
        assert created(store, run) == expected
        for process in processes:
            assert with_addresses_hidden(process["containers"]) == started(store, run, process)
    finally:
        store.close()
        cli("delete", "shown")


def test_an_attached_run_reads_the_configuration_once(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "tfjob.toml").write_text("[local]\nlog_files = 3\n")
    (tmp_path / "hello.yaml").write_text((MANIFESTS / "hello.yaml").read_text())
    command = [sys.executable, "-c", COUNT_READS, "run", str(tmp_path / "hello.yaml")]
    done = subprocess.run(command, env=cli.environment(), capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    assert "reads: 1\n" in done.stderr


def created(store: Store, run: Run) -> list[dict[str, Any]]:
    """Return the children that the driver created, without fields that their creation sets."""
    kinds = (Pod, Service, ConfigMap, Deployment)
    children = [child for kind in kinds for child in store.children(kind, run.uid)]
    return sorted(map(plain, children), key=name_of)


def plain(one: Object) -> dict[str, Any]:
    """Return an object without uid, times, status and annotations of the kubelet."""
    whole: dict[str, Any] = msgspec.to_builtins(one)
    whole.pop("status", None)
    metadata = whole["metadata"]
    for key in ("uid", "resourceVersion", "creationTimestamp", "generation"):
        metadata.pop(key, None)
    for key in (HOW, PEAK_MEMORY):
        metadata.get("annotations", {}).pop(key, None)
    for owner in metadata.get("ownerReferences", ()):
        owner.pop("uid", None)
    return whole


def name_of(one: dict[str, Any]) -> tuple[str, str]:
    return one["kind"], one["metadata"]["name"]


def started(store: Store, run: Run, process: dict[str, Any]) -> Any:
    """Return the containers in the spec of a supervisor, in the shape of a dry run."""
    (pod,) = [one for one in store.children(Pod, run.uid) if one.metadata.name == process["pod"]]
    folder = pod_folder(run.folder, pod)
    wait_until((folder / "spec.json").exists, 60)
    text = (folder / "spec.json").read_text().replace(str(folder), str(local.POD_FOLDER))
    spec = json.loads(text)
    containers = [
        {
            "name": container["name"],
            "init": init,
            "argv": container["argv"],
            "workingDir": container["cwd"],
            "mounts": container["mounts"],
            "env": env,
            "memory": container["memory"],
            "cpu": container["cpu"],
        }
        for init, kind in ((True, "initContainers"), (False, "containers"))
        for container in spec[kind]
        for env in (one["env"] for one in process["containers"] if one["name"] == container["name"])
    ]
    return with_addresses_hidden(containers)


def with_addresses_hidden(containers: list[dict[str, Any]]) -> Any:
    """The levels addresses and ports choose addresses at the start."""
    return json.loads(re.sub(r"127\.77\.\d+\.\d+", "ADDRESS", json.dumps(containers)))
