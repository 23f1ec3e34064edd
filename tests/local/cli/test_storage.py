"""The storage of jobs on this machine: its lifetime, and where commands show it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.command_line import CommandLine
from support.running import wait_until

PROGRAM = """\
import os, pathlib, sys
folders = [pathlib.Path(os.environ[f'TFJOB_{name}_DIR']) for name in ('CHECKPOINT', 'OUTPUT', 'SCRATCH')]
print(*(folder.is_dir() for folder in folders), sys.argv[1] == str(folders[1]))
if KEEPS:
    for folder in folders:
        with open(folder / 'runs', 'a') as file:
            file.write('.')
    print(*(len((folder / 'runs').read_text()) for folder in folders))
"""
REMOVAL = "tfjob volume delete kept-tfjob-data"
"""The command in every notice about files that a job finds or leaves in its storage."""


def about_files(output: str) -> str:
    (line,) = [line for line in output.splitlines() if REMOVAL in line]
    return line


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A manifest without any volume, of two replicas that write a mark into each of their folders."""
    return written(tmp_path, keeps=True)


def written(folder: Path, *, keeps: bool, then: str = "") -> Path:
    command = ["python", "-c", PROGRAM.replace("KEEPS", str(keeps)) + then, "$(TFJOB_OUTPUT_DIR)"]
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "x:1", "command": command}]}}
    replicas = {"Worker": {"replicas": 2, "template": template}}
    spec = {"successPolicy": "AllWorkers", "tfReplicaSpecs": replicas}
    file = folder / "job.json"
    file.write_text(
        json.dumps({"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "kept"}, "spec": spec})
    )
    return file


@pytest.mark.parametrize("level", ["full", "addresses", "ports"])
def test_a_job_finds_its_folders_at_every_level(cli: CommandLine, job: Path, level: str) -> None:
    """They exist, the command can refer to them, and messages do not mention mounts that the manifest does not have."""
    shown = cli("run", str(job), "--no-limits", "--level", level)
    assert shown.count("True True True True") == 2
    assert "tfjob-data" not in shown
    data = cli.home / "claims" / "default" / "kept-tfjob-data"
    assert json.loads(cli("status", "kept", "-o", "json"))["storage"] == str(data)
    assert (data / "output" / "runs").read_text() == ".."
    assert [(data / "scratch" / name / "runs").read_text() for name in ("worker-0", "worker-1")] == [".", "."]


def test_what_a_job_keeps_outlives_its_record_and_the_next_run_of_its_name_finds_it(
    cli: CommandLine, job: Path
) -> None:
    cli("run", str(job), "--no-limits")
    deleted = cli("delete", "kept")
    assert REMOVAL in deleted
    cli.golden("delete-kept-claim", deleted, exact=True)
    shown = cli("run", str(job), "--no-limits")
    assert "4 4 2" in shown
    submitted = cli("submit", str(job), "--no-limits")
    cli("wait", "kept")
    notices = [about_files(output) for output in (shown, submitted, cli("events", "kept"))]
    assert all(str(cli.home / "claims" / "default" / "kept-tfjob-data") in notice for notice in notices)
    cli.golden("storage-holds-files", "\n".join(notices) + "\n")
    cli("delete", "kept")
    cli("volume", "delete", "kept-tfjob-data", "--yes")
    assert REMOVAL not in cli("run", str(job), "--no-limits")


def test_a_job_that_keeps_nothing_leaves_no_claim(cli: CommandLine, tmp_path: Path) -> None:
    cli("run", str(written(tmp_path, keeps=False)), "--no-limits")
    cli.golden("volume-ls-empty", cli("volume", "ls"), exact=True)
    assert str(cli.home / "claims") not in cli("status", "kept")
    cli.golden("delete-no-claim", cli("delete", "kept"), exact=True)


def test_a_folder_of_the_users_choice_takes_the_place_of_the_claim(cli: CommandLine, job: Path, tmp_path: Path) -> None:
    chosen = tmp_path / "chosen"
    chosen.mkdir()
    cli("run", str(job), "--no-limits", "--volume", f"tfjob-data={chosen}")
    assert (chosen / "checkpoints" / "runs").read_text() == ".."
    assert REMOVAL not in cli("run", str(job), "--no-limits", "--volume", f"tfjob-data={chosen}")
    assert f" {chosen}\n" in cli("status", "kept")
    cli.golden("volume-ls-empty", cli("volume", "ls"), exact=True)


def test_a_job_that_was_stopped_finds_its_storage_when_it_is_resumed(cli: CommandLine, tmp_path: Path) -> None:
    job = written(
        tmp_path, keeps=True, then="if (folders[2] / 'runs').read_text() == '.': __import__('time').sleep(600)"
    )
    cli("submit", str(job), "--no-limits")
    marks = [cli.home / "claims/default/kept-tfjob-data/scratch" / name / "runs" for name in ("worker-0", "worker-1")]
    wait_until(lambda: all(mark.exists() and mark.read_text() for mark in marks), 60)
    cli("stop", "kept")
    assert REMOVAL not in cli("resume", "kept")
    cli("wait", "kept", "--timeout", "150s")
    assert [mark.read_text() for mark in marks] == ["..", ".."]
    assert (marks[0].parents[2] / "checkpoints" / "runs").read_text() == "...."
