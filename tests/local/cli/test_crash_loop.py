"""A program that keeps failing or cannot start under OnFailure, as a run, `ps`, `status` and `events` show it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.command_line import CommandLine
from support.running import Running, wait_until

LOOP = """\
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: loop}
spec:
  tfReplicaSpecs:
    Worker:
      replicas: 1
      restartPolicy: OnFailure
      template:
        spec:
          containers:
            - {name: tensorflow, image: "python:3.11", command: [sh, -c, exit 3]}
"""
WAITS = "retry 2"
NEVER_STARTS = {
    "a missing program": ("[nosuchprogram]", 127, "nosuchprogram"),
    "a missing working folder": ("[sh], workingDir: /no/such/folder", 128, "/no/such/folder"),
}


def test_a_crash_loop_is_told_and_not_ready(cli: CommandLine, tmp_path: Path) -> None:
    manifest = tmp_path / "loop.yaml"
    manifest.write_text(LOOP)
    with Running(cli.tool, cli.home, str(manifest), "--no-limits") as run:
        run.wait_for(WAITS)
        # Between two waits, which grow from 10 s, the program runs for a moment.
        wait_until(lambda: is_waiting(json.loads(cli("status", "loop", "-o", "json"))), 120)
        wait_until(lambda: is_said_to_wait(cli("status", "loop")), 120)
        notices = [line for line in (*run.lines, *cli("events", "loop").splitlines()) if WAITS in line]
        cli.golden("crash-loop", "\n".join(notices) + "\n")
        cli("stop", "loop")
        assert run.finish() == 130


@pytest.mark.parametrize("case", NEVER_STARTS)
def test_a_replica_that_can_never_start_fails_after_three_attempts(cli: CommandLine, tmp_path: Path, case: str) -> None:
    command, code, name = NEVER_STARTS[case]
    manifest = tmp_path / "loop.yaml"
    manifest.write_text(LOOP.replace("[sh, -c, exit 3]", command))
    shown = cli("run", str(manifest), "--no-limits", code=1)
    assert name in shown.splitlines()[-1]
    job = json.loads(cli("status", "loop", "-o", "json"))
    assert (job["state"], job["restarts"]) == ("Failed", 2)
    assert (job["failure"]["reason"], job["failure"]["exitCode"]) == ("StartError", code)


def is_waiting(shown: dict[str, Any]) -> bool:
    return (shown["state"], shown["reason"], shown["ready"]) == ("Restarting", "CrashLoopBackOff", "0/1")


def is_said_to_wait(text: str) -> bool:
    told = "Restarting (CrashLoopBackOff): worker-0: " in text
    return told and text.splitlines()[-1].split()[:2] == ["worker-0", "CrashLoopBackOff"]
