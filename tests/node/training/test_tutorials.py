"""Programs in the style of tutorials in pods: scripts without a manifest, and one that needs storage with one."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest
import yaml

from devcluster.client import Client
from devcluster.images import BUSYBOX
from devcluster.mounts import host_python
from support.hosted_servers import hosted_scripts
from support.installed import Installed
from support.room import Room
from support.running import Running
from support.training.tutorials import ON_NODES, PROGRAMS, TUTORIALS, check_output
from tfjob.api.objects import JOB_VOLUME

pytestmark = [pytest.mark.root, pytest.mark.long, pytest.mark.timeout(900)]

PATIENCE = 300
"""Seconds that a training may take on a machine that does much else."""


@pytest.mark.parametrize("name", ON_NODES)
def test_a_tutorial_trains_in_pods(
    tool: Installed, node_cluster: Client, team: Room, tmp_path: Path, name: str
) -> None:
    """When the job has ended, the other replicas may be ended too, so only the output of the first one is complete."""
    tutorial = TUTORIALS[name]
    there = dataclasses.replace(tool, env={**tool.env, "KUBECONFIG": str(node_cluster.kubeconfig)})
    where = ("--on", "k8s", "-n", team.namespace, "--image", BUSYBOX)
    with (
        hosted_scripts(node_cluster, team.namespace, host_python(), tmp_path),
        Running(there, tmp_path / "home", *where, *tutorial.words, cwd=PROGRAMS) as run,
    ):
        assert run.finish(PATIENCE) == 0
    teller = tutorial.tellers[0]
    check_output(tutorial, teller, run.lines_of(teller))


def test_a_process_that_is_killed_resumes_from_its_backup_in_a_volume(
    tool: Installed, node_cluster: Client, team: Room, tmp_path: Path
) -> None:
    """The manifest runs a file of its folder, which is sent."""
    project = tmp_path / "project"
    project.mkdir()
    shutil.copy(PROGRAMS / "backup.py", project)
    volume = {"name": JOB_VOLUME, "hostPath": {"path": str(tmp_path / "data"), "type": "DirectoryOrCreate"}}
    container = {
        "name": "tensorflow",
        "image": BUSYBOX,
        "command": ["python", "backup.py"],
        "volumeMounts": [{"name": JOB_VOLUME, "mountPath": "/data"}],
    }
    worker = {
        "restartPolicy": "ExitCode",
        "template": {"spec": {"containers": [container], "volumes": [volume]}},
    }
    job = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "backup"}}
    (project / "job.yaml").write_text(yaml.safe_dump({**job, "spec": {"tfReplicaSpecs": {"Worker": worker}}}))
    there = dataclasses.replace(tool, env={**tool.env, "KUBECONFIG": str(node_cluster.kubeconfig)})
    words = ("job.yaml", "--on", "k8s", "-n", team.namespace)
    with (
        hosted_scripts(node_cluster, team.namespace, host_python(), tmp_path),
        Running(there, tmp_path / "home", *words, cwd=project) as run,
    ):
        assert run.finish(PATIENCE) == 0
    assert "epochs [2, 3]" in run.lines_of("worker-0")
    assert team.status("backup")["restarts"] == 1
