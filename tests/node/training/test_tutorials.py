"""Programs in the style of tutorials as scripts without a manifest, in pods."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from devcluster.client import Client
from devcluster.images import BUSYBOX
from devcluster.mounts import host_python
from support.hosted_servers import hosted_scripts
from support.installed import Installed
from support.room import Room
from support.running import Running
from support.training.tutorials import ON_NODES, PROGRAMS, TUTORIALS, check_output

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
