"""`tfjob check` reads programs, and `tfjob run` reports a syntax error before it starts anything."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from support.command_line import CommandLine
from tfjob.jobs.output import KINDS

PROGRAMS = {
    "pkg/__init__.py": "",
    "pkg/train.py": "import json\nimport absent_package\nfrom pkg import model\n",
    "pkg/model.py": "import sys\n",
    "broken.py": "def train(:\n    pass\n",
    "mirrored.py": "import tensorflow as tf\n\nstrategy = tf.distribute.MirroredStrategy()\n",
    "servers.py": (
        "import tensorflow as tf\n"
        "strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())\n"
        "model.fit(data)\n"
    ),
    "train.sh": "python servers.py\n",
    "job.yaml": "apiVersion: kubeflow.org/v1\nkind: TFJob\n",
}
CASES = {
    "a module, and an import that is missing": (("-m", "pkg.train"), 2, ["pkg/train.py:2:1", "absent_package"]),
    "a command": (("--", "python", "-m", "pkg.train"), 2, ["pkg/train.py:2:1"]),
    "a syntax error": (("broken.py",), 2, ["broken.py:1:11: invalid Python"]),
    "a strategy and workers": (("mirrored.py", "--workers", "2"), 0, ["mirrored.py:3:12: warning", "ok (mirrored)"]),
    "a strategy and one worker": (("mirrored.py",), 0, ["mirrored.py: ok (mirrored)"]),
    "a strategy without servers": (("servers.py", "--workers", "2"), 2, ["servers.py:2:12", "--chief --ps 1"]),
    "fit on servers": (("servers.py", "--chief", "--ps", "1"), 2, ["servers.py:3:1", "TF_USE_LEGACY_KERAS=1"]),
    "fit of another Keras": (
        ("servers.py", "--chief", "--ps", "1", "--env", "TF_USE_LEGACY_KERAS=1"),
        0,
        ["servers.py: ok (servers)"],
    ),
    "an evaluator": (("servers.py", "--chief", "--ps", "1", "--evaluator", "1"), 2, ["writes checkpoints"]),
    "a shell script": (("train.sh",), 0, ["train.sh: ok (train)"]),
    "two programs": (("mirrored.py", "train.sh"), 0, ["mirrored.py: ok", "train.sh: ok"]),
    "an interpreter that does not exist": (("mirrored.py", "--python", "nowhere"), 2, ["nowhere"]),
    "an option of the program": (("mirrored.py", "--steps", "3"), 2, ["tfjob check PROGRAM -- --steps"]),
    "arguments of the program": (("mirrored.py", "--", "--steps", "3"), 0, ["mirrored.py: ok"]),
    "no such program": (("absent.py",), 2, ["absent.py"]),
    "workers of a manifest": (("job.yaml", "--workers", "2"), 2, ["--workers"]),
    "nothing": ((), 2, ["FILE|SCRIPT"]),
    "two workers of nothing": (("mirrored.py", "--workers", "0"), 2, ["no replica would train"]),
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    for name, text in PROGRAMS.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


def tfjob(cli: CommandLine, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [*cli.tool.command, *words]
    return subprocess.run(
        command, env=cli.environment(), cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture(scope="module")
def checked(empty: CommandLine, project: Path) -> dict[str, subprocess.CompletedProcess[str]]:
    """Every case of CASES, run once."""
    return {case: tfjob(empty, project, "check", *words) for case, (words, _, _) in CASES.items()}


@pytest.mark.parametrize("case", CASES)
def test_a_program_is_checked(checked: dict[str, subprocess.CompletedProcess[str]], case: str) -> None:
    _, code, parts = CASES[case]
    done = checked[case]
    shown = done.stdout + done.stderr
    assert done.returncode == code, shown
    assert [part for part in parts if part not in shown] == []
    assert "Traceback" not in shown


def test_every_check_has_its_golden_text(
    empty: CommandLine, checked: dict[str, subprocess.CompletedProcess[str]]
) -> None:
    text = "\n".join(f"{case}:\n{done.stdout}{done.stderr}" for case, done in checked.items())
    empty.golden("check-program", text.replace(str(empty.tool.command[0]), "PYTHON"))


def test_json_has_the_place_of_each_problem(empty: CommandLine, project: Path) -> None:
    done = tfjob(empty, project, "check", "broken.py", "mirrored.py", "--workers", "2", "-o", "json")
    assert done.returncode == 2
    items = json.loads(done.stdout)["items"]
    assert [(one["source"], one["line"], one["column"]) for one in items] == [
        ("broken.py", 1, 11),
        ("mirrored.py", 3, 12),
    ]
    assert [one.get("warning", False) for one in items] == [False, True]
    assert all(set(one) <= set(KINDS["Problem"].fields) for one in items)


@pytest.mark.parametrize("command", ["run", "submit"])
def test_a_program_that_is_not_python_is_not_started(empty: CommandLine, project: Path, command: str) -> None:
    done = tfjob(empty, project, command, "broken.py", "--workers", "2")
    assert done.returncode == 2
    assert "broken.py:1:11: invalid Python" in done.stderr
    assert not empty.home.exists()


def test_an_import_that_may_fail_does_not_keep_a_run_from_starting(cli: CommandLine, project: Path) -> None:
    done = tfjob(cli, project, "run", "-m", "pkg.train", "--dry-run")
    assert done.returncode == 0, done.stderr
