"""`tfjob models` and `tfjob export`: the models of jobs and folders."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from support.command_line import MANIFESTS, CommandLine
from support.installed import Installed
from support.serve.signatures import DIGITS, signature, write_saved_model
from tfjob.api.objects import own_claim_name
from tfjob.jobs.output import KINDS
from tfjob.serve.exports import export_at, read
from tfjob.serve.savedmodel import CLASSIFY

EXAMPLES = signature({"inputs": ("STRING", (None,))}, {"scores": ("FLOAT", (None, None))}, "classify", CLASSIFY)
TWO = signature({"a": ("FLOAT", (None, 2)), "b": ("BOOL", ())}, {"y": ("DOUBLE", None)}, "two")


@pytest.fixture(scope="module")
def line(tool: Installed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    """The jobs hello, whose storage contains models, and fails, whose storage contains none."""
    line = CommandLine(tool, tmp_path_factory.mktemp("models") / "home")
    try:
        line("run", "hello.yaml", "--no-limits")
        line("run", "fails.yaml", "--no-limits", code=1)
        model = storage(line, "hello") / "output" / "model"
        write_saved_model(model / "1", step=100)
        write_saved_model(model / "2", DIGITS, EXAMPLES, TWO, step=600)
        (write_saved_model(model / "3") / "variables" / "variables.index").unlink()
        yield line
    finally:
        line.end()


def storage(line: CommandLine, job: str) -> Path:
    """Return the folder of a job's claim, which is gone if the job has written nothing."""
    folder = line.home / "claims" / "default" / own_claim_name(job)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def test_the_models_of_all_jobs_are_listed(line: CommandLine) -> None:
    line.golden("models", line("models"))
    assert line("models", "ls") == line("models")


def test_a_model_is_shown_with_its_signatures_and_a_request(line: CommandLine) -> None:
    folder = storage(line, "hello") / "output" / "model" / "2"
    shown = line("models", "show", str(folder))
    line.golden("models-show", shown)
    assert line("models", str(folder)) == shown


def test_the_same_comes_as_json(line: CommandLine) -> None:
    items = json.loads(line("models", "-o", "json"))["items"]
    assert [(one["job"], one["version"], one["step"]) for one in items] == [
        ("hello.1", 1, 100),
        ("hello.1", 2, 600),
        ("hello.1", 3, None),
    ]
    assert [bool(one["problem"]) for one in items] == [False, False, True]
    for one in items:
        assert list(one) == list(KINDS["Model"].fields)
    shown = json.loads(line("models", "show", items[1]["folder"], "-o", "json"))
    assert (shown.pop("apiVersion"), shown.pop("kind")) == ("tfjob/v1", "Model")
    assert shown["signatures"][0]["inputs"] == items[1]["signatures"][0]["inputs"]
    (classify, default, two) = shown["signatures"]
    assert (classify["method"], default["name"]) == (CLASSIFY, "serving_default")
    assert two["outputs"] == [{"name": "y", "type": "double", "shape": None}]


def test_what_cannot_be_shown_or_exported_is_an_error(line: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    to = f"--to {tmp_path}/served"
    shown = ""
    for code, words in (
        (2, "models show hello"),
        (3, "models show fails"),
        (3, "models show absent"),
        (3, "models show ./absent"),
        (2, f"export hello {to}"),
        (3, f"export fails {to}"),
        (3, f"export hello --model other {to}"),
        (2, f"export hello {to} --checkpoints x"),
        (2, f"export hello {to} --program model.py"),
        (2, f"export {tmp_path}/folder {to} --program model.py:build"),
        (2, "export hello"),
    ):
        shown += f"$ tfjob {words}\n{line(*words.split(), code=code)}"
    line.golden("export-errors", shown.replace(str(tmp_path), "FOLDER"))
    assert not (tmp_path / "served").exists()


def test_the_output_folder_that_a_manifest_names_is_searched(line: CommandLine, tmp_path: Path) -> None:
    """It is searched like the storage of the job, which is the usual place of an output folder."""
    manifest = yaml.safe_load((MANIFESTS / "hello.yaml").read_text())
    worker = manifest["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    worker |= {"env": [{"name": "TFJOB_OUTPUT_DIR", "value": "written"}], "command": ["true"]}
    manifest["metadata"]["name"] = "named"
    manifest["spec"]["tfReplicaSpecs"] = {"Worker": {**manifest["spec"]["tfReplicaSpecs"]["Worker"], "replicas": 1}}
    (tmp_path / "named.yaml").write_text(yaml.safe_dump(manifest))
    write_saved_model(tmp_path / "written" / "digits" / "5")
    line("run", str(tmp_path / "named.yaml"), "--no-limits")
    shown = json.loads(line("models", "show", "named", "-o", "json"))
    line("delete", "named")
    assert (shown["job"], shown["model"], shown["version"]) == ("named.1", "digits", 5)
    assert shown["folder"] == str(tmp_path / "written" / "digits" / "5")


def test_an_error_of_the_program_that_builds_a_model_is_shown(line: CommandLine, tmp_path: Path) -> None:
    """The program runs with the Python of the job, in the folder of the job."""
    program = tmp_path / "model.py"
    program.write_text("def build():\n    raise ValueError('no data')\n")
    words = ("export", "hello", "--to", str(tmp_path / "served"), "--program")
    shown = line(*words, f"{program}:build", code=2)
    assert "the program failed: ValueError: no data" in shown
    assert "export_checkpoint.py" in shown
    assert "has no function make" in line(*words, f"{program}:make", code=2)
    assert "there is no file" in line(*words, f"{tmp_path}/absent.py:build", code=2)
    assert not (tmp_path / "served").exists()


def test_a_job_without_models_prints_how_to_export_one(tool: Installed, tmp_path: Path) -> None:
    empty = CommandLine(tool, tmp_path / "home")
    empty.golden("models-empty", empty("models"), exact=True)
    assert not (tmp_path / "home").exists()


def test_a_model_is_exported_as_the_next_version(line: CommandLine, saved_models: Path, tmp_path: Path) -> None:
    """The engine answers before the version appears."""
    job = storage(line, "hello") / "output" / "other"
    shutil.copytree(saved_models / "means" / "1", job / "7")
    words = ("export", "hello", "--model", "other", "--to", str(tmp_path / "mnist"))
    assert line(*words) == f"exported hello.1 to {tmp_path}/mnist/1\n"
    assert line(*words, "-q") == f"{tmp_path}/mnist/2\n"
    made = json.loads(line(*words, "--version", "9", "-o", "json"))
    assert (made["version"], made["folder"], made["model"]) == (9, f"{tmp_path}/mnist/9", "mnist")
    assert "already exists" in line(*words, "--version", "9", code=2)
    assert read(tmp_path / "mnist" / "9").signatures.keys() == {"predict_images", "serving_default"}
    copied = line("export", str(tmp_path / "mnist"), "--to", str(tmp_path / "copy"))
    assert copied == f"exported mnist to {tmp_path}/copy/1\n"
    assert export_at(tmp_path / "copy" / "1").version == 1
    one = line("export", str(tmp_path / "mnist" / "2"), "--to", str(tmp_path / "copy"))
    assert one == f"exported mnist to {tmp_path}/copy/2\n"
    shutil.rmtree(job)
