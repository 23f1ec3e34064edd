"""`tfjob run SCRIPT` runs the manifest of the script; contradictory options are rejected with one line."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from support.command_line import MANIFESTS, CommandLine

REFUSED = {
    "counts for a manifest": (("hello.yaml", "--workers", "2"), "--workers"),
    "arguments for a manifest": (("hello.yaml", "--", "--steps", "3"), "--steps 3"),
    "an image for a manifest": (("hello.yaml", "--image", "python:3"), "--image"),
    "parameters for a script": (("steps.py", "-p", "steps=3"), "-p"),
    "no replica trains": (("steps.py", "--workers", "0"), "no replica"),
    "two evaluators": (("steps.py", "--evaluator", "2"), "--evaluator"),
    "a negative count": (("steps.py", "--workers", "-1"), "--workers"),
    "no number": (("steps.py", "--ps", "many"), "'many'"),
    "no such script": (("nothing.py",), "nothing.py"),
    "an option of the script": (("steps.py", "--steps", "3"), "tfjob run PROGRAM -- --steps"),
    "no job name": (("steps.py", "--name", "No_Name"), "'No_Name'"),
    "in an image, here": (("steps.py", "--in-image"), "--in-image"),
    "an image, here": (("steps.py", "--image", "python:3"), "--image only applies to a cluster"),
    "a variable for a manifest": (("hello.yaml", "--env", "A=1"), "--env"),
    "no name of a variable": (("steps.py", "--env", "1A=1"), "--env 1A=1"),
    "a variable that the shell lacks": (("steps.py", "--env", "NOT_SET"), "NOT_SET"),
    "no env file": (("steps.py", "--env-file", "nothing.env"), "nothing.env"),
    "a secret for a cluster": (
        ("steps.py", "--on", "k8s", "--image", "python:3", "--env", "MY_TOKEN=1"),
        "secretKeyRef",
    ),
    "no program": (("--workers", "2"), "-m MODULE"),
    "a script of another folder": (("../errors.txt.py", "--on", "k8s", "--image", "python:3"), "cd .."),
    "in an image, a manifest, here": (("hello.yaml", "--in-image"), "--in-image"),
    "a cluster without an image": (("steps.py", "--on", "k8s"), "--image"),
    "no name of an image": (("steps.py", "--on", "k8s", "--image", "tensor flow"), "--image: 'tensor flow'"),
    "two manifests": (("hello.yaml", "hello.yaml"), "two manifests"),
    "a manifest and a module": (("hello.yaml", "-m", "pkg"), "-m pkg and hello.yaml"),
    "warm and cold": (("steps.py", "--warm", "--cold"), "--warm and --cold"),
    "a variable that tfjob sets": (("steps.py", "--env", "TF_CONFIG={}"), "--env TF_CONFIG"),
}


@pytest.fixture(scope="module")
def refused(empty: CommandLine) -> dict[str, subprocess.CompletedProcess[str]]:
    """Every case of REFUSED, run once."""
    return {case: empty.run("run", *words) for case, (words, _) in REFUSED.items()}


@pytest.mark.parametrize("case", REFUSED)
def test_what_contradicts_itself_is_one_error(
    empty: CommandLine, refused: dict[str, subprocess.CompletedProcess[str]], case: str
) -> None:
    done = refused[case]
    assert done.returncode == 2
    assert REFUSED[case][1] in done.stderr
    assert done.stderr.lower().count("error:") == 1
    assert not empty.home.exists()


def test_every_refusal_has_its_golden_text(
    empty: CommandLine, refused: dict[str, subprocess.CompletedProcess[str]]
) -> None:
    text = "\n".join(f"{case}:\n{done.stderr}" for case, done in refused.items())
    empty.golden("run-script-errors", text, exact=True)


def test_a_script_and_its_printed_manifest_do_the_same(cli: CommandLine, tmp_path: Path) -> None:
    """From another folder, because the paths of the script and its arguments are relative to the current folder."""
    words = ("steps.py", "--workers", "2", "--ps", "1", "--chief", "--evaluator", "1")
    arguments = ("--", "--steps", "3", "a b", "$(HOME)")
    script = cli("run", *words, *arguments)
    assert "(1 chief, 1 evaluator, 1 ps, 2 workers)" in script
    assert "chief-0     | chief 0 --steps 3 a b $(HOME)\n" in script
    (tmp_path / "steps.py").write_text((MANIFESTS / "steps.py").read_text())
    (tmp_path / "printed.yaml").write_text(cli("run", *words, "--dry-run", "-o", "yaml", *arguments))
    printed = cli("run", str(tmp_path / "printed.yaml"))
    assert script.splitlines()[0].replace("steps.1", "steps.2") == printed.splitlines()[0]
    assert "chief-0     | chief 0 --steps 3 a b $(HOME)\n" in printed


CLUSTER = {"KUBECONFIG": str(MANIFESTS.parent / "no-cluster.kubeconfig")}


@pytest.mark.parametrize("file", ["steps.py", "./steps.py", str(MANIFESTS / "steps.py")])
def test_a_script_goes_to_a_cluster_with_its_folder(empty: CommandLine, file: str) -> None:
    done = empty.run("run", file, "--on", "k8s", "--image", "python:3", "--dry-run", env=CLUSTER)
    assert done.returncode == 0, done.stderr
    job, config_map, *_ = yaml.safe_load_all(done.stdout)
    assert job["metadata"]["name"] == "steps"
    (container,) = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    assert container["command"] == ["python", "steps.py"]
    assert config_map["immutable"]
    assert f"of {MANIFESTS} to the cluster:\n" in done.stderr
    assert "\n  steps.py (" in done.stderr


def test_a_script_in_its_image_is_not_sent(empty: CommandLine) -> None:
    words = ("run", "steps.py", "--on", "k8s", "--image", "python:3", "--dry-run", "--in-image")
    _, service, pod = yaml.safe_load_all(empty(*words, env=CLUSTER))
    assert (service["kind"], pod["kind"]) == ("Service", "Pod")
    assert "initContainers" not in pod["spec"]


def test_the_printed_manifest_of_a_script_is_sent_with_its_folder_too(empty: CommandLine, tmp_path: Path) -> None:
    """It is short and can be edited: what is sent belongs to the command."""
    (tmp_path / "steps.py").write_text((MANIFESTS / "steps.py").read_text())
    words = ("--on", "k8s", "--dry-run")
    script = empty.run("run", "steps.py", "--image", "python:3", *words, "-o", "yaml", env=CLUSTER)
    assert script.stderr == ""
    (tmp_path / "job.yaml").write_text(script.stdout)
    printed = empty.run("run", str(tmp_path / "job.yaml"), *words, env=CLUSTER)
    assert "\n  job.yaml (" in printed.stderr
    kinds = [one["kind"] for one in yaml.safe_load_all(printed.stdout)]
    assert kinds == ["TFJob", "ConfigMap", "Service", "Pod"]


SHOW = """import os
for name in sorted(os.environ):
    if name.startswith(("TF_", "WANDB_", "MINE", "GIVEN", "FILED", "OTHER")) and name != "TF_CONFIG":
        print(name, os.environ[name])
"""
SHELL = {"WANDB_MODE": "from-shell", "MINE": "private-1", "MINE_TOO": "private-2", "OTHER": "stays", "TF_CONFIG": "{}"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "show.py").write_text(SHOW)
    (tmp_path / "some.env").write_text("# comment\nFILED=private-3\n\nexport FILED_TOO=a b\n")
    (tmp_path / "tfjob.toml").write_text('[run]\npass-env = ["MINE*"]\n')
    return tmp_path


def in_folder(cli: CommandLine, folder: Path, *words: str) -> str:
    done = subprocess.run(
        [*cli.tool.command, *words],
        env=cli.environment(SHELL),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_script_gets_variables_of_the_shell_and_of_options(cli: CommandLine, project: Path) -> None:
    options = ("--env", "GIVEN=here", "--env-file", "some.env")
    shown = in_folder(cli, project, "run", "show.py", "--plain", *options)
    seen = [line.partition("| ")[2] for line in shown.splitlines() if line.startswith("worker-0")]
    expected = ["FILED private-3", "FILED_TOO a b", "GIVEN here", "MINE private-1", "MINE_TOO private-2"]
    assert [line for line in seen if line] == [*expected, "WANDB_MODE from-shell"]


def test_a_record_has_the_names_of_passed_variables_and_not_their_values(cli: CommandLine, project: Path) -> None:
    in_folder(cli, project, "run", "show.py", "--env-file", "some.env", "--name", "secretive")
    (folder,) = cli.home.glob("runs/*/secretive.1")
    kept = {
        file: file.read_text(errors="replace") for file in folder.rglob("*") if file.is_file() and file.name != "log"
    }
    assert any("MINE_TOO" in text for text in kept.values())
    assert [str(file) for file, text in kept.items() if "private-" in text] == []


def test_a_dry_run_shows_which_variables_are_passed(cli: CommandLine, project: Path) -> None:
    shown = in_folder(cli, project, "run", "show.py", "--dry-run", "--env-file", "some.env", "--env", "GIVEN=here")
    assert "passed   FILED, FILED_TOO, MINE, MINE_TOO, WANDB_MODE\n" in shown
    assert "GIVEN=here" in shown
    assert "private-" not in shown


def test_a_manifest_gets_nothing_from_the_shell(cli: CommandLine, project: Path) -> None:
    (project / "job.yaml").write_text(in_folder(cli, project, "run", "show.py", "--dry-run", "-o", "yaml"))
    shown = in_folder(cli, project, "run", "job.yaml", "--name", "strict", "--plain")
    assert not [line for line in shown.splitlines() if line.startswith("worker-0") and "| " in line]


def test_modules_shell_scripts_and_commands_are_programs_too(cli: CommandLine, project: Path) -> None:
    (project / "pkg").mkdir()
    (project / "pkg" / "train.py").write_text("import os, sys\nprint('TF_CONFIG' in os.environ, *sys.argv[1:])\n")
    (project / "train.sh").write_text('python -m pkg.train "$@"\n')
    for words, name in (
        (("-m", "pkg.train", "--workers", "1", "--", "--epochs", "3"), "train"),
        (("--workers", "1", "--name", "command", "--", "python", "-m", "pkg.train", "--epochs", "3"), "command"),
        (("train.sh", "--workers", "1", "--name", "shell", "--", "--epochs", "3"), "shell"),
    ):
        shown = in_folder(cli, project, "run", "--plain", *words)
        assert "worker-0 | True --epochs 3\n" in shown
        assert f"{name} succeeded" in shown
    lone = in_folder(cli, project, "run", "-m", "pkg.train", "--plain")
    assert "worker-0 | False\n" in lone
