"""A program that keeps failing under OnFailure, as a run, `ps`, `status` and `events` show it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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
WAITS = "restart 2"


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


def is_waiting(shown: dict[str, Any]) -> bool:
    return (shown["state"], shown["reason"], shown["ready"]) == ("Restarting", "CrashLoopBackOff", "0/1")


def is_said_to_wait(text: str) -> bool:
    told = "Restarting (CrashLoopBackOff): worker-0: " in text
    return told and text.splitlines()[-1].split()[:2] == ["worker-0", "CrashLoopBackOff"]
