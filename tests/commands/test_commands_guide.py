"""The guides to jobs on a cluster say what really happens."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from commands.cluster_line import on_cluster
from devcluster.client import Client
from docs.guide import CLUSTER, FIRST_VERSION, IN_EXAMPLES, copy_of_examples, play, with_image_of_nodes
from hosted_images import hosted_images
from installed import Installed
from training.pods import storage_for

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]


def test_every_command_of_the_cluster_guide_prints_what_it_says(
    tool: Installed, node_cluster: Client, nodes_namespace: str, tmp_path: Path
) -> None:
    line = on_cluster(tool, node_cluster.kubeconfig, nodes_namespace, tmp_path)
    programs = f"{Path(sys.executable).parent}:{node_cluster.programs}:/usr/bin:/bin"
    env = {"KUBECONFIG": line.tool.env["KUBECONFIG"], "PATH": programs}
    # The doctor sees no Deployment: the operator of the tests runs beside the cluster. TfJobs are not served here.
    for command, printed in play(CLUSTER, tmp_path, env=env, edit=with_image_of_nodes, wanted=FIRST_VERSION.__ne__):
        assert command.matches(printed), f"{CLUSTER.name}:{command.line}: $ {command.command}\n{printed}"


@pytest.mark.tensorflow
@pytest.mark.parametrize("page", sorted(IN_EXAMPLES), ids=lambda page: page.stem)
def test_every_command_of_a_guide_to_the_samples_prints_the_same_as_on_a_laptop(
    page: Path, tool: Installed, node_cluster: Client, nodes_namespace: str, tmp_path: Path
) -> None:
    project = copy_of_examples(tmp_path)
    line = on_cluster(tool, node_cluster.kubeconfig, nodes_namespace, tmp_path)
    env = {"KUBECONFIG": line.tool.env["KUBECONFIG"], "TFJOB_ON": "k8s"}
    with (
        hosted_images(node_cluster, nodes_namespace, project, tmp_path),
        storage_for(node_cluster, nodes_namespace, "tf-files", tmp_path / "claim"),
    ):
        for command, printed in play(page, tmp_path, project, env):
            assert command.matches(printed), f"{page.name}:{command.line}: $ {command.command}\n{printed}"
