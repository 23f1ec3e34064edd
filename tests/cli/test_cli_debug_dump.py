"""A bundle for a bug report: what is in it, and what is not."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from command_line import CommandLine
from tfjob.jobs import redaction
from tfjob.jobs.redaction import HIDDEN


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


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"env": [{"name": "AWS_SECRET_ACCESS_KEY", "value": "abc"}]}, False),
        ({"environ": {"HF_TOKEN": "abc"}}, False),
        ({"args": ["--password=abc"]}, False),
        ({"args": ["--token abc"]}, False),
        ({"message": "Authorization: Bearer abc"}, False),
        ({"kind": "Secret", "data": {"key": "abc"}}, False),
        ({"note": "postgres://me:abc@db/x"}, False),
        ({"secretName": "abc"}, True),
        ({"secretKeyRef": {"name": "abc", "key": "abc"}}, True),
        ({"serviceAccountName": "abc"}, True),
        ({"volumes": [{"secret": {"secretName": "abc"}}]}, True),
        ({"env": [{"name": "STEPS", "value": "abc"}]}, True),
        ({"message": "the author wrote abc"}, True),
    ],
)
def test_secrets_go_by_name_shape_and_place_and_the_rest_stays(given: dict[str, object], kept: bool) -> None:
    shown = str(redaction.document(given))
    assert ("abc" in shown) is kept
    assert (HIDDEN in shown) is not kept


@pytest.mark.parametrize(
    "line",
    [
        "key AKIAABCDEFGHIJKLMNOP used",
        "pushing with ghp_abcdefghijklmnopqrstuvwx",
        "jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc",
        'config {"api_key": "abcdef"}',
        "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_tokens_are_known_by_their_shape(line: str) -> None:
    assert HIDDEN in redaction.text(line)


def test_a_line_without_secrets_stays_as_it_is() -> None:
    line = "step 100: loss 0.31, accuracy 0.92, 12 tokens/s at https://example.com:8080/path"
    assert redaction.text(line) == line


def contents(file: Path) -> dict[str, str]:
    """The files of a bundle by name."""
    found = {}
    with tarfile.open(file) as archive:
        for entry in archive:
            reader = archive.extractfile(entry)
            assert reader is not None
            found[entry.name.partition("/")[2]] = reader.read().decode()
    return found
