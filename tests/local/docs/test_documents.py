"""The blocks of the documents on this machine: each runs as it stands, and what is broken is refused with its place."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from support.docs.blocks import BLOCKS, BROKEN, HERE, TASKS
from support.docs.guide import copy_of_examples
from support.golden import check_golden
from support.installed import Installed
from tfjob.local.inputs import images
from tfjob.local.state import config

GOLDEN = HERE / "golden.txt"
SHIPPED = Path(__file__).parents[3] / "examples"
SETTINGS = f"""
[images."example.com/*"]
command = ["python", "{HERE / "standin.py"}"]

[images."example.com/digits"]
command = ["python", "{HERE / "standin.py"}"]
env = {{ TF_FILES = "/tmp/tensorflow" }}

[volumes]
azurefile = "share"
"""
WRITTEN = {
    "azure-file": "project/share/written",
    "tensorboard-azure-file": "project/share/written",
    "v1beta1-claim": "project/share/module-claim/written",
}
"""Where the share stands in for a volume, what the program leaves there."""
SAYS = {
    "distributed-on-a-claim": "I am master 0 --model_dir ./out/vars --export_dir ./out/models\n",
    "job-alone": "I am None None\n",
    "tensorboard-bucket": "I am master 0 --log_dir=gs://some-bucket/curves\n",
    "vanilla-job": "I am None None\n",
}
"""What else than its place in the job a program was told; a plain Job tells it nothing."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder where the images and the share of the blocks mean something."""
    folder = tmp_path / "project"
    (folder / "share").mkdir(parents=True)
    (folder / "tfjob.toml").write_text(SETTINGS)
    shutil.copy(HERE / "standin.py", folder / "model.py")
    return folder


@pytest.mark.parametrize("block", BLOCKS, ids=lambda path: path.stem)
def test_a_block_runs_as_it_stands(tool: Installed, tmp_path: Path, project: Path, block: Path) -> None:
    shutil.copy(block, project)
    done = tool.tfjob(tmp_path / "home", "run", "--cpu", str(project / block.name))
    assert done.returncode == 0, done.stdout + done.stderr
    kinds = Counter(task.partition("-")[0] for task in TASKS[block.stem])
    started = ", ".join(f"{count} {kind}s?" for kind, count in sorted(kinds.items()))
    assert re.search(rf"\({started}\)", done.stdout), done.stdout
    assert SAYS.get(block.stem, "I am master 0\n") in done.stdout
    if block.stem in WRITTEN:
        assert (tmp_path / WRITTEN[block.stem]).exists()


def test_with_the_shipped_settings_the_block_with_a_claim_leaves_its_results_on_the_share(
    tool: Installed, tmp_path: Path
) -> None:
    """The image's name is that of the documents; the stand-in is where the shipped program is."""
    project = copy_of_examples(tmp_path)
    shutil.copy(HERE / "standin.py", project / "retrain" / "train.py")
    block = next(path for path in BLOCKS if path.stem == "v1beta1-claim").read_text()
    manifest = project / "block.yaml"
    manifest.write_text(block.replace("example.com/digits:gpu", "someone/tf-mnist:gpu"))
    done = tool.tfjob(tmp_path / "home", "run", "--cpu", str(manifest))
    assert done.returncode == 0, done.stdout + done.stderr
    assert (project / "share" / "module-claim" / "written").exists()


def test_every_broken_block_is_refused_with_its_place(tool: Installed, tmp_path: Path) -> None:
    """`TFJOB_UPDATE_GOLDEN=1` writes the golden file anew."""
    done = tool.tfjob(tmp_path, "check", *(path.name for path in BROKEN), cwd=HERE / "broken")
    assert done.returncode == 2
    check_golden(GOLDEN, done.stdout + done.stderr)
    assert {line.split(":")[0] for line in GOLDEN.read_text().splitlines()} == {path.name for path in BROKEN}


@pytest.mark.parametrize(
    ("image", "program"),
    [
        ("wbuchwalter/tensorflow-for-poets:cpu", "retrain"),
        ("wbuchwalter/tensorflow-for-poets:gpu", "retrain"),
        ("someone/tf-mnist:gpu", "retrain"),
        ("gcr.io/tf-on-k8s-dogfood/tf_sample:dc944ff", "between-graph"),
        ("gcr.io/tf-on-k8s-dogfood/tf_sample_gpu:latest", "between-graph"),
    ],
)
def test_the_shipped_settings_know_the_images_of_the_documents(image: str, program: str) -> None:
    settings = config.load(SHIPPED, {})
    runtime = images.resolve({"image": image}, settings, python=None, project=SHIPPED)
    assert runtime.workdir == SHIPPED / program
    assert runtime.command is not None
    assert (runtime.workdir / runtime.command[1]).is_file()
    assert settings.volumes["azurefile"].is_dir()
