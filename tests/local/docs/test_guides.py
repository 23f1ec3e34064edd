"""The guides and the README say what really happens."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest
from tensorboard.compat.proto import event_pb2  # type: ignore[import-untyped]
from tensorboard.util import tensor_util  # type: ignore[import-untyped]

from support.docs.guide import (
    DISTRIBUTED,
    FIRST_TF_JOB,
    IN_EXAMPLES,
    SERVING,
    V1BETA1,
    WITH_KUBECTL,
    WITH_STANDIN,
    copy_of_examples,
    play,
    put_standin,
)

ROOT = Path(__file__).parents[3]
ELSEWHERE = {"cluster.md", "helm.md", "tensorboard.md"}
"""Played by tests/node/cli and tests/node/chart, which have a cluster, and by tests/local/board, with a training."""
GUIDES = sorted(
    {page for page in (ROOT / "docs" / "guides").glob("*.md") if page.name not in ELSEWHERE}
    - IN_EXAMPLES
    - WITH_STANDIN
    - {SERVING}
)


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_every_command_of_a_guide_prints_what_the_guide_says(page: Path, tmp_path: Path) -> None:
    assert played(page, tmp_path), f"{page} has no command"


@pytest.mark.tensorflow
@pytest.mark.timeout(600)
def test_the_guide_to_going_distributed_says_what_happens(tmp_path: Path) -> None:
    played(DISTRIBUTED, tmp_path, copy_of_examples(tmp_path))


@pytest.mark.tensorflow
@pytest.mark.timeout(600)
def test_the_guide_to_a_first_tf_job_says_what_happens(tmp_path: Path) -> None:
    """The curves on the share also match the log of the same training."""
    project = copy_of_examples(tmp_path)
    shown = re.search(r"Step 499: Cross entropy = (\S+)", played(FIRST_TF_JOB, tmp_path, project))
    assert shown
    curves = project / "share" / "training_summaries"
    (written,) = {len(points(curves / part, name)) for part in ("train", "validation") for name in CURVES}
    assert written == 51
    assert points(curves / "train", "cross_entropy")[-1] == pytest.approx(float(shown[1]), rel=1e-3)


def test_the_guide_to_v1beta1_says_what_happens(tmp_path: Path) -> None:
    """A stand-in is enough, because the training is that of the previous guide."""
    project = copy_of_examples(tmp_path)
    put_standin(project)
    played(V1BETA1, tmp_path, project)


@pytest.mark.tensorflow
@pytest.mark.timeout(600)
def test_the_guide_to_serving_says_what_happens(tmp_path: Path) -> None:
    """It uses the default ports of `tfjob serve`, 9000 and 8501."""
    played(SERVING, tmp_path, copy_of_examples(tmp_path))


CURVES = ("accuracy", "cross_entropy")


def played(page: Path, folder: Path, project: Path | None = None) -> str:
    """Play a page in a folder that its reader has, or in an empty one; return the output of all commands."""
    with play(page, folder, project, wanted=WITH_KUBECTL.__ne__) as printed:
        return "".join(printed)


def points(folder: Path, name: str) -> list[float]:
    """Return the values of a scalar in the event file of a folder."""
    (file,) = folder.glob("events*")
    data, at, values = file.read_bytes(), 0, []
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)  # a checksum follows the length, and another one the record
        event = event_pb2.Event.FromString(data[at + 12 : at + 12 + length])
        values += [tensor_util.make_ndarray(one.tensor).item() for one in event.summary.value if one.tag == name]
        at += 16 + length
    return values


@pytest.mark.tensorflow
@pytest.mark.timeout(600)
def test_the_commands_of_the_readme_print_what_it_shows(tmp_path: Path) -> None:
    played(ROOT / "README.md", tmp_path, ROOT)


def test_ci_and_every_page_install_the_same_uv() -> None:
    (pinned,) = re.findall(r"^UV_VERSION=(\S+)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    for page in ("README.md", "CONTRIBUTING.md"):
        assert set(re.findall(r"uv==([0-9.]+)", (ROOT / page).read_text())) == {pinned}, page
