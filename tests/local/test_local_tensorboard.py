"""TensorBoard here: the folder that a log folder means, and the port that it gets."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tfjob.local.refusal import Refusal
from tfjob.local.tensorboard import HOST, USUAL_PORT, free_port, real_folder
from tfjob.local.volumes import Mount

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


def test_a_port_that_is_asked_for_must_be_free_and_the_usual_one_need_not() -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(Refusal, match=f"port {port} cannot be used: Address already in use"):
            free_port(port)
    assert free_port(port) == port
    assert free_port(0) == 0
    assert free_port(None) in (USUAL_PORT, 0)
