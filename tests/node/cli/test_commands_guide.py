"""The guides to jobs on a cluster say what really happens."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from devcluster.client import Client
from support.board import tensorboard_image
from support.board.browser import Browser, until_scalar
from support.cluster_line import on_cluster
from support.command_line import CommandLine
from support.docs.guide import (
    CLUSTER,
    FIRST_TF_JOB,
    IN_EXAMPLES,
    V1BETA1,
    WITH_STANDIN,
    copy_of_examples,
    play,
    put_standin,
    with_image_of_nodes,
)
from support.hosted_images import hosted_images
from support.installed import Installed
from support.kubectl_proxy import kubectl_proxy
from support.training.pods import storage_for

pytestmark = [pytest.mark.long, pytest.mark.root, pytest.mark.timeout(900)]

CLAIMS = {FIRST_TF_JOB: "tf-files", V1BETA1: "azurefile"}
"""What the pages declare, and a cluster of somebody else would have storage for."""


def test_every_command_of_the_cluster_guide_prints_what_it_says(
    tool: Installed, node_cluster: Client, nodes_namespace: str, tmp_path: Path
) -> None:
    line = on_cluster(tool, node_cluster.kubeconfig, nodes_namespace, tmp_path)
    # The doctor sees no Deployment: the operator of the tests runs beside the cluster.
    with play(CLUSTER, tmp_path, env=environment(line, node_cluster), edit=with_image_of_nodes) as printed:
        assert list(printed)


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, id=page.stem, marks=pytest.mark.tensorflow) for page in sorted(IN_EXAMPLES)]
    + [pytest.param(page, id=page.stem) for page in sorted(WITH_STANDIN)],
)
def test_every_command_of_a_guide_to_the_samples_prints_the_same_as_on_a_laptop(
    page: Path, tool: Installed, node_cluster: Client, nodes_namespace: str, tmp_path: Path
) -> None:
    """Of the TensorBoard that a page shows, the scalar that the training wrote is there in a browser."""
    if page == FIRST_TF_JOB:
        node_cluster.load_image(tensorboard_image.image() / "tf-job-tensorboard.tar")
    project = copy_of_examples(tmp_path)
    if page in WITH_STANDIN:
        put_standin(project)
    line = on_cluster(tool, node_cluster.kubeconfig, nodes_namespace, tmp_path)
    env = {**environment(line, node_cluster), "TFJOB_ON": "k8s"}
    whole = ""
    with (
        hosted_images(node_cluster, nodes_namespace, project, tmp_path),
        storage_for(node_cluster, nodes_namespace, CLAIMS.get(page, "none"), tmp_path / "claim"),
        play(page, tmp_path, project, env) as commands,
    ):
        for printed in commands:
            whole += printed
            if board := re.search(r'"(tensorboard-[0-9a-z]{4})" successfully rolled out', printed):
                look_at(board[1], node_cluster, nodes_namespace, tmp_path)
    if page in IN_EXAMPLES:
        assert re.search(r"^(pod/)?master-[0-9a-z]{4}-0-[0-9a-z]{5}\b", whole, re.MULTILINE), whole
    assert ("successfully rolled out" in whole) == (page == FIRST_TF_JOB)


def look_at(service: str, client: Client, namespace: str, folder: Path) -> None:
    """Waits until the page behind a Service shows what the sample writes."""
    with kubectl_proxy(client) as proxy:
        address = f"{proxy}/api/v1/namespaces/{namespace}/services/{service}:80/proxy/"
        until_scalar(Browser(folder), address, "cross_entropy")


def environment(line: CommandLine, client: Client) -> dict[str, str]:
    """What a page's commands need beside their folder: the cluster, and kubectl."""
    programs = f"{Path(sys.executable).parent}:{client.programs}:/usr/bin:/bin"
    return {"KUBECONFIG": line.tool.env["KUBECONFIG"], "PATH": programs}
