"""Replicas that outlive the end of a job: tfjob ends them, or `cleanPodPolicy: None` keeps them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.command_line import CommandLine

JOB = """\
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: served}
spec:
  runPolicy: {cleanPodPolicy: POLICY}
  tfReplicaSpecs:
    PS:
      replicas: 2
      template: {spec: {containers: [{name: tensorflow, image: "python:3.11", command: [sleep, "600"]}]}}
    Worker:
      replicas: 1
      template: {spec: {containers: [{name: tensorflow, image: "python:3.11", command: [sleep, "5"]}]}}
"""
LEFT = "tfjob delete served"
"""The command in the notice about replicas that are still running."""


@pytest.fixture
def manifest(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    file = tmp_path / "served.yaml"
    file.write_text(JOB.replace("POLICY", request.param))
    return str(file)


@pytest.mark.parametrize("manifest", ["Running"], indirect=True)
def test_replicas_that_tfjob_ended_itself_are_called_stopped_and_keep_their_exit_code(
    cli: CommandLine, manifest: str
) -> None:
    assert "warning" not in cli("run", manifest, "--no-limits")
    words = {line.split()[0]: line.split()[1:4] for line in cli("status", "served").splitlines()[-3:]}
    assert words == {
        "ps-0": ["Stopped", "1", "143"],
        "ps-1": ["Stopped", "1", "143"],
        "worker-0": ["Succeeded", "1", "0"],
    }
    shapes = json.loads(cli("status", "served", "-o", "json"))["replicas"]
    assert [(one["phase"], one["exitCode"]) for one in shapes] == [("Failed", 143), ("Failed", 143), ("Succeeded", 0)]


@pytest.mark.parametrize("manifest", ["None"], indirect=True)
def test_an_attached_run_says_before_its_start_that_it_keeps_no_replicas(cli: CommandLine, manifest: str) -> None:
    shown = cli.run("run", manifest, "--no-limits")
    assert "served.yaml:5:15: warning: spec.runPolicy.cleanPodPolicy: " in shown.stderr
    cli.golden("run-keeps-no-replicas", shown.stderr.replace(manifest, "MANIFEST"), exact=True)
    assert LEFT not in cli("status", "served")


@pytest.mark.parametrize("manifest", ["None"], indirect=True)
def test_status_says_what_a_finished_job_left_running_and_how_to_end_it(cli: CommandLine, manifest: str) -> None:
    assert "warning" not in cli("submit", manifest, "--no-limits")
    cli("wait", "served", "--timeout", "150s")
    (notice,) = [line for line in cli("status", "served").splitlines() if LEFT in line]
    cli.golden("status-leftovers", f"{notice}\n", exact=True)
    cli("delete", "served")
