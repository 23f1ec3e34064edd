"""`tfjob init` writes templates that can run, and does not overwrite files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from support.command_line import CommandLine
from tfjob.cli.commands.init import DEFAULT, FAST, TEMPLATES


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_template_is_a_valid_job_with_a_script_a_volume_and_curves(
    empty: CommandLine, tmp_path: Path, template: str
) -> None:
    """Replicas run the script next to the manifest, and TensorBoard shows the storage that they write to."""
    folder = tmp_path / "my digits"
    empty("init", template, str(folder))
    shown = json.loads(empty("run", "--dry-run", str(folder / "tfjob.yaml"), "-o", "json"))
    commands = {item["replica"]: item["containers"][0]["argv"] for item in shown["items"]}
    assert (folder / "train.py").exists()
    assert all(argv == ["python", "train.py"] for name, argv in commands.items() if not name.startswith("ps"))
    job, claim = yaml.safe_load_all((folder / "tfjob.yaml").read_text())
    assert (job["metadata"]["name"], claim["metadata"]["name"]) == ("my-digits", "my-digits-data")
    assert job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["name"] == "tensorflow"
    assert job["spec"]["tensorBoard"]["volumes"][0]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert job["spec"]["tensorBoard"]["volumes"][0]["name"] == "tfjob-data"


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_fast_template_differs_only_in_the_arguments_of_its_script(
    empty: CommandLine, tmp_path: Path, template: str
) -> None:
    empty("init", template, str(tmp_path / "long" / "digits"))
    empty("init", template, "--fast", str(tmp_path / "fast" / "digits"))
    slow, fast = ((tmp_path / way / "digits") for way in ("long", "fast"))
    assert (fast / "train.py").read_bytes() == (slow / "train.py").read_bytes()
    assert (fast / "tfjob.yaml").read_text().replace(f", {FAST[template]}", "") == (slow / "tfjob.yaml").read_text()
    shown = json.loads(empty("run", "--dry-run", str(fast / "tfjob.yaml"), "-o", "json"))
    words = yaml.safe_load(f"[{FAST[template]}]")
    commands = [item["containers"][0]["argv"] for item in shown["items"] if not item["replica"].startswith("ps")]
    assert commands == [["python", "train.py", *words]] * len(commands)


def test_init_writes_here_says_what_to_do_next_and_never_writes_over(empty: CommandLine, tmp_path: Path) -> None:
    folder = tmp_path / "new"
    empty.golden("init", empty("init", DEFAULT, str(folder)).replace(str(folder), "FOLDER"))
    (folder / "train.py").write_text("mine")
    (folder / "tfjob.yaml").unlink()
    refused = empty("init", DEFAULT, str(folder), code=2)
    assert str(folder / "train.py") in refused
    empty.golden("init-refused", refused.replace(str(folder), "FOLDER"), exact=True)
    assert not (folder / "tfjob.yaml").exists()
    assert (folder / "train.py").read_text() == "mine"
    assert empty("init", DEFAULT, str(folder), "-f", "-q") == ""
    assert "MultiWorkerMirroredStrategy" in (folder / "train.py").read_text()


def test_a_folder_that_cannot_be_written_to_is_named(empty: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert str(tmp_path / "file") in empty("init", DEFAULT, str(tmp_path / "file"), code=2)
