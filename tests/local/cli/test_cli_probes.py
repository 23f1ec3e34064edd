"""A TFJob whose replica fails its liveness probe, at the level where its port is not the one of the manifest."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import json, os, pathlib, socket, time
tried = pathlib.Path("tried")
if not tried.exists():
    tried.touch()
    time.sleep(600)
config = json.loads(os.environ["TF_CONFIG"])
host, _, port = config["cluster"]["worker"][config["task"]["index"]].rpartition(":")
assert port != "2222"
server = socket.create_server(("", int(port)))
server.settimeout(120)
server.accept()
"""

MANIFEST = """
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: probed}
spec:
  tfReplicaSpecs:
    Worker:
      replicas: 2
      restartPolicy: OnFailure
      template:
        spec:
          containers:
          - name: tensorflow
            image: none
            command: [python, program.py]
            ports: [{name: tfjob-port, containerPort: 2222}]
            livenessProbe:
              tcpSocket: {port: tfjob-port}
              periodSeconds: 2
              terminationGracePeriodSeconds: 1
"""


def test_an_unhealthy_replica_restarts_in_place_and_its_probe_finds_its_port(tmp_path: Path) -> None:
    """The first run hangs; the second one ends once its probe has connected to it."""
    (tmp_path / "program.py").write_text(PROGRAM.replace('"tried"', '"tried-" + os.environ["HOSTNAME"]'))
    (tmp_path / "probed.yaml").write_text(MANIFEST)
    environ = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path), "TFJOB_HOME": str(tmp_path / "state")}
    tool = [sys.executable, "-m", "tfjob"]
    done = subprocess.run(
        [*tool, "run", "probed.yaml", "--level", "ports", "--python", sys.executable],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "liveness probe failed" in done.stdout + done.stderr
    shown = subprocess.run([*tool, "status", "probed", "-o", "json"], env=environ, capture_output=True, check=True)
    status = json.loads(shown.stdout)
    assert (status["state"], status["attempt"]) == ("Succeeded", 1)
