"""One job through every room, at every level: what CI also runs with the other interpreters of the machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from textwrap import indent

import pytest

PROGRAM = """
import json, os, socket, time
config = json.loads(os.environ["TF_CONFIG"])
role, host = config["task"]["type"], config["cluster"]["chief"][0].rpartition(":")
if role == "chief":
    server = socket.create_server(("0.0.0.0", int(host[2])))
    for _ in config["cluster"]["worker"]:
        print("heard", server.accept()[0].recv(100).decode(), flush=True)
else:
    while True:
        try:
            socket.create_connection((host[0], int(host[2]))).sendall(f"worker {config['task']['index']}".encode())
            break
        except OSError:
            time.sleep(0.05)
"""

TEMPLATE = f"""
      template:
        spec:
          containers:
          - name: tensorflow
            image: python:3
            command: [python, -c]
            args:
            - |
{indent(PROGRAM, " " * 14)}
"""

MANIFEST = f"""
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {{name: talk}}
spec:
  tfReplicaSpecs:
    Chief:
      replicas: 1
{TEMPLATE}
    Worker:
      replicas: 2
{TEMPLATE}
"""


@pytest.mark.parametrize("level", ["full", "addresses", "ports"])
def test_replicas_reach_each_other_by_tf_config_and_the_job_succeeds(tmp_path: Path, level: str) -> None:
    (tmp_path / "talk.yaml").write_text(MANIFEST)
    environ = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path), "TFJOB_HOME": str(tmp_path / "state")}
    done = subprocess.run(
        [sys.executable, "-m", "tfjob", "run", "talk.yaml", "--level", level, "--python", sys.executable],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert {line.partition("heard ")[2] for line in done.stdout.splitlines() if "heard" in line} == {
        "worker 0",
        "worker 1",
    }
    shown = subprocess.run(
        [sys.executable, "-m", "tfjob", "ps", "-o", "json"], env=environ, capture_output=True, check=True
    )
    assert [job["state"] for job in json.loads(shown.stdout)["items"]] == ["Succeeded"]
