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


NOTE = """\
import os, pathlib
folder = pathlib.Path(os.environ["TFJOB_CHECKPOINT_DIR"])
print("found", sorted(path.name for path in folder.iterdir()))
(folder / pathlib.Path(__file__).resolve().parent.name).touch()
"""


@pytest.fixture
def scripts(tmp_path: Path) -> dict[str, str]:
    """The same script in three folders, two of which have the same name."""
    folders = {"one": tmp_path / "one", "two": tmp_path / "two", "other": tmp_path / "other" / "two"}
    for folder in folders.values():
        folder.mkdir(parents=True)
        (folder / "train.py").write_text(NOTE)
    return {name: str(folder / "train.py") for name, folder in folders.items()}


def test_scripts_of_one_name_in_several_folders_share_no_storage(
    cli: CommandLine, scripts: dict[str, str], tmp_path: Path
) -> None:
    names = {}
    for folder in ("one", "two", "other"):
        shown = cli("run", scripts[folder], "--cold")
        assert "found []" in shown
        names[folder] = json.loads(cli("status", "@latest", "-o", "json"))["name"]
        if folder == "two":
            (note,) = [line for line in shown.splitlines() if line.startswith("the job is named")]
            cli.golden("run-script-of-another-folder", f"{note.replace(str(tmp_path), 'FOLDER')}\n", exact=True)
    assert names["one"] == "train"
    assert names["two"] == "train-two"
    assert names["other"].startswith("train-two-")
    assert "found ['two']" in cli("run", scripts["other"], "--cold"), "the name is stable"
    assert f"name: {names['other']}\n" in cli("run", scripts["other"], "--dry-run", "-o", "yaml")
    assert names["other"] in cli("check", "--on", "local", scripts["other"])


def test_a_name_stays_with_its_folder_when_the_plain_one_is_free_again(
    cli: CommandLine, scripts: dict[str, str]
) -> None:
    cli("run", scripts["one"], "--cold")
    cli("run", scripts["two"], "--cold")
    cli("delete", "train", "--yes")
    cli("volume", "delete", "train-tfjob-data", "--yes")
    assert "found ['two']" in cli("run", scripts["two"], "--cold")


def test_storage_of_another_folder_is_refused_without_a_terminal_and_shared_on_request(
    cli: CommandLine, scripts: dict[str, str], tmp_path: Path
) -> None:
    cli("run", scripts["one"], "--cold")
    refused = cli("run", scripts["two"], "--name", "train", "--cold", code=2)
    assert f"{tmp_path}/one\n" in refused
    cli.golden("run-foreign-storage", refused.replace(str(tmp_path), "FOLDER"), exact=True)
    assert cli("ps", "-aq").split() == ["train.1"]
    assert "found ['one']" in cli("run", scripts["two"], "--name", "train", "--share-storage", "--cold")
    assert "found ['one', 'two']" in cli("run", scripts["two"], "--name", "train", "--cold"), "accepted once"
    assert "found ['one', 'two']" in cli("run", scripts["one"], "--cold"), "it still belongs to the first folder"


def test_a_manifest_that_was_copied_does_not_continue_from_the_original(
    cli: CommandLine, job: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy" / "job.json"
    copy.parent.mkdir()
    copy.write_text(job.read_text())
    cli("run", str(job), "--no-limits")
    assert str(job.parent) in cli("submit", str(copy), "--no-limits", code=2)
    assert str(job.parent) in cli("run", str(copy), "--no-limits", code=2)
    cli("run", str(copy), "--no-limits", "--volume", f"tfjob-data={tmp_path}")


def test_storage_of_an_older_release_is_accepted_and_then_belongs_to_its_folder(
    cli: CommandLine, job: Path, tmp_path: Path
) -> None:
    """Older releases did not record folders, neither of claims nor of runs."""
    cli("run", str(job), "--no-limits")
    record = cli.home / "claims" / "default" / ".kept-tfjob-data.json"
    claim = json.loads(record.read_text())
    assert claim.pop("sources") == [str(tmp_path)]
    record.write_text(json.dumps(claim))
    options = cli.home / "runs" / "default" / "kept.1" / "options.json"
    options.write_text(
        json.dumps({name: value for name, value in json.loads(options.read_text()).items() if name != "source"})
    )
    moved = tmp_path / "moved" / "job.json"
    moved.parent.mkdir()
    job.rename(moved)
    assert "4 4 2" in cli("run", str(moved), "--no-limits")
    assert json.loads(record.read_text())["sources"] == [str(moved.parent)]
