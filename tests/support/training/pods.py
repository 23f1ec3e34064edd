"""Trainings as pods of a cluster without a registry: this machine's interpreter and files instead of an image."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from devcluster.client import Client
from devcluster.mounts import host_python
from support.installed import Installed
from support.room import Room
from support.running import Running, wait_until
from support.training.examples import pods_of
from tfjob.api.resources import PODS

Object = dict[str, Any]


class Training:
    """A training at work: an attached `tfjob run --on k8s`, its pods, and what it has written to its claim."""

    def __init__(self, run: Running, room: Room, name: str, output: Path, client: Client) -> None:
        self.run = run
        self.room = room
        self.name = name
        self.output = output
        self.client = client

    def pod(self, task: str) -> Object:
        """The pod of a task, once its program runs."""
        name, seen = f"{self.name}-{task}", list[Object]([{}])

        def runs() -> bool:
            seen[0] = self.room.find(PODS, name) or {}
            containers = seen[0].get("status", {}).get("containerStatuses", [])
            going = "deletionTimestamp" in seen[0].get("metadata", {})
            return not going and any("running" in one["state"] for one in containers)

        wait_until(runs, 120, lambda: f"{name} does not run: {seen[0].get('status')}; {self.status()}")
        return seen[0]

    def uids(self) -> dict[str, str]:
        """Which pods there are, by task."""
        return self.room.uids(self.name)

    def process(self, task: str) -> int:
        """The process of the program in a pod, as this machine numbers it."""
        return main_process(self.pod(task))

    def kill(self, task: str) -> None:
        """kill -9 of the program in a pod."""
        os.kill(self.process(task), signal.SIGKILL)

    def run_again(self) -> None:
        """The same manifest once more, when the job is over: as a user does, who deletes the old one first."""
        tool, home, words = self.run.tool, self.run.home, self.run.words
        gone = tool.tfjob(home, "delete", self.name, "-y", *self._where)
        assert gone.returncode == 0, gone.stderr
        self.run = Running(tool, home, *words)

    def end(self) -> None:
        """End the command if it still runs."""
        self.run.close()

    def status(self) -> Object:
        """What the operator has written about the job."""
        return self.room.status(self.name)

    def shown(self) -> str:
        """What `tfjob status` says about the job."""
        return self.run.tool.tfjob(self.run.home, "status", self.name, *self._where).stdout

    @property
    def _where(self) -> tuple[str, ...]:
        return ("--on", "k8s", "-n", self.room.namespace)


@contextmanager
def training(
    documents: list[Object], program: Path, client: Client, room: Room, tool: Installed, folder: Path
) -> Iterator[Training]:
    """Runs documents, a job and its claim, on a cluster; `program` is the folder of the job's program."""
    there = dataclasses.replace(tool, env={**tool.env, "KUBECONFIG": str(client.kubeconfig)})
    manifest = folder / "job.yaml"
    manifest.write_text(yaml.safe_dump_all(hosted(documents, program)))
    claim = documents[1]["metadata"]["name"]
    with storage_for(client, room.namespace, claim, folder / "output") as output:
        run = Running(there, folder / "home", str(manifest), "--on", "k8s", "-n", room.namespace)
        started = Training(run, room, documents[0]["metadata"]["name"], output, client)
        try:
            yield started
        finally:
            started.end()


def hosted(documents: list[Object], program: Path) -> list[Object]:
    """Documents with what the job's image would hold: an interpreter with TensorFlow, the program's folder and its
    neighbours.

    Commands, arguments, volumes and policies stay what they are.
    """
    host = host_python(program.parent)
    path = f"{Path(host.python).parent}:/usr/bin:/bin"
    spec = documents[0]["spec"]
    if "tfImage" in spec:  # of default parameter servers, whose pods need hosted_servers
        spec["tfImage"] = host.image
    for pod in pods_of(documents[0]):
        pod["volumes"] = [*pod.get("volumes", ()), *host.volumes]
        (container,) = pod["containers"]
        container |= {
            "image": host.image,
            "imagePullPolicy": "IfNotPresent",
            "workingDir": str(program),
            "env": [*container.get("env", ()), {"name": "PATH", "value": path}],
            "volumeMounts": [*container.get("volumeMounts", ()), *host.mounts],
        }
    return documents


@contextmanager
def storage_for(client: Client, namespace: str, claim: str, folder: Path) -> Iterator[Path]:
    """A volume for a claim that is still to be made: a folder of this machine, which every node sees."""
    folder.mkdir(exist_ok=True)  # what a test has mounted there is the disk
    name = f"{namespace}-{claim}"
    client.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "capacity": {"storage": "1Gi"},
                "claimRef": {"namespace": namespace, "name": claim},
                "hostPath": {"path": str(folder)},
                "persistentVolumeReclaimPolicy": "Retain",
            },
        }
    )
    try:
        yield folder
    finally:
        client.kubectl("delete", "persistentvolume", name, "--wait=false")


def main_process(pod: Object, timeout: float = 60) -> int:
    """The process that a pod's container is, as this machine numbers it."""
    (container,) = pod["status"]["containerStatuses"]
    mark = container["containerID"].rpartition("/")[2]
    wait_until(lambda: bool(_firsts(mark)), timeout, lambda: f"no process of {pod['metadata']['name']} runs here")
    (first,) = _firsts(mark)
    return first


def _firsts(container: str) -> list[int]:
    """The processes of a container's control group that are number 1 of their own namespace."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            if container not in Path(f"/proc/{entry}/cgroup").read_text():
                continue
            status = Path(f"/proc/{entry}/status").read_text()
        except OSError:
            continue
        numbers = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()
        if numbers[-1] == "1":
            found.append(int(entry))
    return found
