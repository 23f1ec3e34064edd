"""The content of a bug report archive."""

from __future__ import annotations

import tarfile
from pathlib import Path

from support.command_line import CommandLine


def test_a_bundle_holds_the_job_its_pods_events_and_logs(finished: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "bundle.tar.gz"
    said = finished("debug-dump", "fails", "--file", str(file))
    finished.golden("debug-dump", said.replace(str(file), "FILE"))
    assert file.stat().st_mode & 0o777 == 0o600
    parts = contents(file)
    assert "reason: ReplicaFailed" in parts["summary.yaml"]
    assert "ValueError: no data" in parts["logs.txt"]
    assert "TFJobFailed" in parts["events.yaml"]
    assert "kind: TFJob" in parts["job.yaml"]
    assert "level:" in parts["record/options.json"]
    assert "kind: TFJob" in parts["record/manifest.yaml"]


def test_a_broken_file_of_the_record_does_not_hide_the_others(finished: CommandLine, tmp_path: Path) -> None:
    (folder,) = finished.home.glob("runs/*/fails.1")
    broken, file = folder / "broken.json", tmp_path / "bundle.tar.gz"
    broken.write_text("{")
    try:
        finished("debug-dump", "fails", "--file", str(file))
    finally:
        broken.unlink()
    parts = contents(file)
    assert "not available" in parts["record/broken.json"]
    assert "kind: TFJob" in parts["record/manifest.yaml"]


def test_a_bundle_shows_no_secret_of_its_job(cli: CommandLine, tmp_path: Path) -> None:
    manifest = """
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: leaky}
spec:
  tfReplicaSpecs:
    Worker:
      replicas: 1
      template:
        spec:
          containers:
          - name: tensorflow
            image: python:3
            command: [sh, -c, 'echo using token=$TOKEN; echo "visible"']
            env:
            - {name: DB_PASSWORD, value: hunter2}
            - {name: TOKEN, value: hunter3}
            - {name: SOURCE, value: "https://user:hunter4@example.com/data"}
            - {name: STEPS, value: "300"}
"""
    cli("run", "-", "--no-limits", stdin=manifest)
    file = tmp_path / "bundle.tar.gz"
    cli("debug-dump", "leaky", "--file", str(file))
    whole = "\n".join(contents(file).values())
    assert "hunter" not in whole
    assert "visible" in whole
    assert "'300'" in whole


def contents(file: Path) -> dict[str, str]:
    """Return the files of an archive by name."""
    found = {}
    with tarfile.open(file) as archive:
        for entry in archive:
            reader = archive.extractfile(entry)
            assert reader is not None
            found[entry.name.partition("/")[2]] = reader.read().decode()
    return found
