"""Write a state folder of this release as text, for tests of later releases that must still read it.

    .venv/bin/python tools/older_state.py      writes tests/support/data/local/older_state/schema-N

Run it on Linux, as any user, before the schema of the database changes. tests/support/older_state.py reads the result.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.running import end_processes, processes_of, workload_pid  # noqa: E402
from tfjob.local.state.database import SCHEMA  # noqa: E402
from tfjob.local.state.home import Home, boot_id  # noqa: E402

TARGET = ROOT / "tests" / "support" / "data" / "local" / "older_state" / f"schema-{SCHEMA}"
QUICK = json.dumps({"settle_gang": 0, "settle_tasks": 0, "restart_waits": [0]})
LEFT_OUT = {"state.db", "state.db-wal", "state.db-shm", "status.last"}
"""The database is written as SQL; status.last only reserves space on the disk."""

MANIFEST = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: NAME-settings}
data: {greeting: hello from NAME}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: kept}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
---
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: NAME}
spec:
  runPolicy: {backoffLimit: 1}
  tfReplicaSpecs:
    Worker:
      replicas: 2
      restartPolicy: OnFailure
      template:
        spec:
          terminationGracePeriodSeconds: 5
          containers:
            - name: tensorflow
              image: example.com/standin
              command: [sh, -c, 'echo "$GREETING"; echo NAME >> /kept/lines; SCRIPT']
              env:
                - name: GREETING
                  valueFrom: {configMapKeyRef: {name: NAME-settings, key: greeting}}
              volumeMounts: [{name: kept, mountPath: /kept}]
          volumes: [{name: kept, persistentVolumeClaim: {claimName: kept}}]
"""
SCRIPTS = {
    "done": "true",
    "broken": "echo no such column >&2; exit 3",
    "paused": "exec sleep 3600",
    "removed": "true",
    "running": "exec sleep 3600",
}


def main() -> None:
    """Create the state folder, then write it as text."""
    with tempfile.TemporaryDirectory(prefix="tfjob-older-") as scratch:
        home, project = Path(scratch, "home"), Path(scratch, "project")
        project.mkdir()
        for name, script in SCRIPTS.items():
            (project / f"{name}.yaml").write_text(MANIFEST.replace("NAME", name).replace("SCRIPT", script))
        try:
            make_runs(home, project)
        finally:
            end_processes(home)
        write_text(home, project)


def make_runs(home: Path, project: Path) -> None:
    """Create two runs of a job that succeeded, and one run each that failed, was stopped, was deleted and still ran."""

    def tfjob(*words: str, code: int = 0) -> None:
        environ = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "TFJOB_TEST_DURATIONS": QUICK}
        environ |= {"HOME": str(home), "TFJOB_HOME": str(home)}
        done = subprocess.run([sys.executable, "-m", "tfjob", *words], cwd=project, env=environ, check=False)
        assert done.returncode == code, words

    level = ("--level", "ports", "--no-limits")
    tfjob("run", "done.yaml", *level)
    tfjob("run", "done.yaml", *level)
    tfjob("run", "broken.yaml", *level, code=1)
    tfjob("submit", "paused.yaml", *level)
    tfjob("wait", "paused", "--for", "running", "--timeout", "60s")
    tfjob("stop", "paused")
    tfjob("run", "removed.yaml", *level)
    tfjob("delete", "removed")
    tfjob("submit", "running.yaml", *level)
    for index in range(2):
        workload_pid(home, f"running-worker-{index}")
    tfjob("wait", "running", "--for", "running", "--timeout", "60s")
    for pid in processes_of(home):  # together, so that no process can record the end of another one
        os.kill(pid, signal.SIGSTOP)


def write_text(home: Path, project: Path) -> None:
    """Write the database as SQL, and the files as one JSON object, with placeholders for values of this machine."""
    places = {
        Path("/etc/hosts").read_text(): "127.0.0.1 localhost\n",
        str(home): "@HOME@",
        str(project): "@PROJECT@",
        sys.prefix: "@PREFIX@",
        boot_id(): "@BOOT@",
        str(ROOT): "@ROOT@",
        platform.platform(): "@MACHINE@",
        socket.gethostname(): "@HOST@",
    }

    def plain(text: str) -> str:
        for real, placeholder in places.items():
            text = text.replace(real, placeholder)
        return text

    paths = sorted(path for path in home.rglob("*") if path.name not in LEFT_OUT)
    texts = {str(path.relative_to(home)): plain(path.read_text()) if path.is_file() else None for path in paths}
    TARGET.mkdir(parents=True, exist_ok=True)
    (TARGET / "state.sql").write_text(plain(dumped(Home(home).database)))
    (TARGET / "files.json").write_text(json.dumps(texts, indent=1) + "\n")


def dumped(database: Path) -> str:
    """Return the statements that create the database again, with JSON as readable text."""
    with sqlite3.connect(database) as connection:
        tables = connection.execute("select name, sql from sqlite_master where sql is not null order by rootpage")
        lines = [f"pragma user_version = {SCHEMA};"]
        for name, statement in tables.fetchall():
            lines.append(f"{statement};")
            if statement.lower().startswith("create table"):
                rows = connection.execute(f"select * from {name}")
                lines += [f"insert into {name} values ({', '.join(map(literal, row))});" for row in rows]
    return "\n".join(lines) + "\n"


def literal(value: object) -> str:
    """Return a value as an SQL literal."""
    if isinstance(value, bytes):
        return f"cast({literal(value.decode())} as blob)"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return "null" if value is None else repr(value)


if __name__ == "__main__":
    main()
