"""The TensorBoard of a run: the folder that a log folder means."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfjob.local.run.tensorboard import real_folder
from tfjob.local.volumes.volumes import Mount

PROJECT = Path("/home/me/project")
MOUNTS = [
    Mount("share", Path("/data/share"), "", "/tmp/tensorflow", read_only=False),
    Mount("other", Path("/data/other"), "runs/1", "/tmp/tensorflow/other", read_only=True),
]


@pytest.mark.parametrize(
    ("log_dir", "expected"),
    [
        ("/tmp/tensorflow", "/data/share"),
        ("/tmp/tensorflow/training_summaries", "/data/share/training_summaries"),
        ("/tmp/tensorflow/other/a", "/data/other/runs/1/a"),
        ("/tmp/tensorflow-2", "/tmp/tensorflow-2"),
        ("/tmp/tensorflow/x/../y/", "/data/share/y"),
        ("logs", "/home/me/project/logs"),
        ("s3://bucket/tmp/tensorflow", "s3://bucket/tmp/tensorflow"),
    ],
)
def test_a_log_folder_is_found_through_the_mounts_of_tensorboard(log_dir: str, expected: str) -> None:
    assert real_folder(log_dir, MOUNTS, PROJECT) == expected
