"""A reader of logs, while another process writes and rotates them."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from tfjob.jobs.backend import Line
from tfjob.records.log_reader import Follower, Source

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "worker-0/main/0"


WRITER = """
import sys, time
from tfjob.local.sandbox.container_log import ContainerLog
log = ContainerLog(sys.argv[1], 20_000, 5)
for start in range(0, 50_000, 50):
    log.feed("".join(f"line {number} of some length\\n" for number in range(start, start + 50)).encode())
    time.sleep(0.0005)
log.close()
"""


def test_a_reader_beside_a_writing_process_sees_every_line_once_and_in_order(run: Path) -> None:
    """On a busy machine the writer may rotate files away unseen; then a notice stands in the gap, nowhere else."""
    with subprocess.Popen([sys.executable, "-c", WRITER, str(run)]) as writer, Follower() as follower:
        follower.add(Source("a", run.parent))
        seen: list[Line] = []
        while writer.poll() is None:
            seen += follower.poll()
        seen += follower.finish()
    expected = 0
    for before, line in pairwise([Line(START, "a", ""), *seen]):
        if line.notice:
            continue
        number = int(line.text.split()[1])
        assert number >= expected if before.notice else number == expected
        expected = number + 1
    assert expected == 50_000
