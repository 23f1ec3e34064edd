"""GPU requests on a machine that may have no GPU: a program that prints what it sees replaces the training."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from support.command_line import CommandLine
from support.running import wait_until


@pytest.fixture
def two_gpus(tmp_path: Path) -> dict[str, str]:
    """An environment in which NVIDIA's tool lists two GPUs."""
    tool = tmp_path / "tools" / "nvidia-smi"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho 'GPU 0: Example (UUID: GPU-0)'\necho 'GPU 1: Example (UUID: GPU-1)'\n")
    tool.chmod(0o755)
    return {"PATH": f"{tool.parent}:{os.environ['PATH']}"}


def seen(output: str) -> dict[str, str]:
    """Return what each replica saw."""
    return dict(re.findall(r"^(\w+-\d+) +\| sees (.*)$", output, re.MULTILINE))


def lines_with(keyword: str, output: str) -> str:
    return "".join(line for line in output.splitlines(keepends=True) if keyword in line)


def test_each_replica_sees_its_share_of_the_gpus_and_a_parameter_server_none(
    cli: CommandLine, two_gpus: dict[str, str]
) -> None:
    """A job waits while another job has the GPUs."""
    cli("submit", "gpus.yaml", "--no-limits", "--name", "first", "-p", "seconds=600", env=two_gpus)
    cli("wait", "first", "--for", "running")
    cli("submit", "gpus.yaml", "--no-limits", "-p", "seconds=600", env=two_gpus)
    wait_until(lambda: lines_with("2 GPUs", cli("status", "gpus")) != "", 60)
    waiting = lines_with("2 GPUs", cli("status", "gpus"))
    cli.golden("status-waits-for-gpus", re.sub(r"(master|worker)-0", "REPLICA", waiting))
    cli("delete", "--yes", "first")
    wait_until(lambda: len(seen(cli("logs", "gpus"))) == 3, 60)
    found = seen(cli("logs", "gpus"))
    cli("delete", "--yes", "gpus")
    assert found.pop("ps-0") == "-1"
    assert (sorted(found), sorted(found.values())) == (["master-0", "worker-0"], ["0", "1"])


def test_without_gpus_the_job_is_refused_unless_it_is_told_to_train_on_the_cpu(cli: CommandLine) -> None:
    environ = {"CUDA_VISIBLE_DEVICES": ""}  # whatever the machine has
    refused = cli("run", "gpus.yaml", "-p", "seconds=0.1", code=2, env=environ)
    at = 'template.spec.containers[0].resources.requests["alpha.kubernetes.io/nvidia-gpu"]'
    assert f"{at}: " in refused
    assert "--cpu" in refused
    cli.golden("run-without-gpus", refused, exact=True)
    told = cli("run", "gpus.yaml", "-p", "seconds=0.1", "--no-limits", "--cpu", env=environ)
    assert "--cpu" in told
    cli.golden("run-with-cpu", lines_with("--cpu", told), exact=True)
    assert set(seen(told).values()) == {"-1"}
