"""The log of a container of a real pod."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.golden import check_golden
from support.local.log_lines import records, text
from support.local.pod_harness import EACH_LEVEL, PYTHON, Pods, at
from tfjob.local.sandbox.container_log import ContainerLog

GOLDEN = Path(__file__).parents[2] / "support" / "data" / "local" / "golden"


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk_drops_output_and_says_so_once_there_is_room(small_disk: Path) -> None:
    log = ContainerLog(str(small_disk / "logs"), 10 << 20, 5)
    filler = small_disk / "filler"
    filler.write_bytes(bytes(700_000))
    for number in range(4000):
        log.feed(f"line {number} {'x' * 100}\n".encode())
    lost = log.lost
    assert lost > 0
    filler.unlink()
    log.feed(b"room again\n")
    log.close()
    lines = text(small_disk / "logs" / "log").splitlines()
    assert lines[-1] == b"room again"
    assert f" {lost} " in lines[-2].decode()
    check_golden(GOLDEN / "log-lost-output.txt", lines[-2].decode().replace(f" {lost} ", " COUNT ") + "\n")


# Through a pod


@at(EACH_LEVEL)
def test_a_5_mb_line_binary_bytes_and_a_progress_bar_arrive_unchanged(pods: Pods) -> None:
    code = (
        "import sys\n"
        "out = sys.stdout.buffer\n"
        "out.write(b'y' * 5_000_000 + b'\\n'); out.write(bytes(range(256)) * 4 + b'\\n')\n"
        "for i in range(2000): out.write(b'\\r%d/2000' % i); out.flush()\n"
        "sys.stderr.write('\\nerror\\n')\n"
    )
    pod = pods.launch(pods.container(PYTHON, "-c", code))
    assert pod.ended()["exitCode"] == 0
    bar = b"".join(b"\r%d/2000" % number for number in range(2000))
    expected = b"y" * 5_000_000 + b"\n" + bytes(range(256)) * 4 + b"\n" + bar + b"\nerror\n"
    assert text(pod.folder / "logs" / "main" / "0" / "log") == expected


@at(EACH_LEVEL)
def test_a_flood_is_rotated_and_no_line_is_torn(pods: Pods) -> None:
    code = "for i in range(40000): print(f'line {i:06} ' + 'z' * 40)"
    pod = pods.launch(pods.container(PYTHON, "-c", code), log={"maxBytes": 500_000, "files": 3})
    assert pod.ended()["exitCode"] == 0
    folder = pod.folder / "logs" / "main" / "0"
    assert sorted(os.listdir(folder)) == ["log", "log.1", "log.2", "truncated"]
    kept = b"".join(text(folder / name) for name in ("log.2", "log.1", "log")).splitlines()
    assert kept[-1].startswith(b"line 039999 ")
    assert kept == [b"line %06d " % n + b"z" * 40 for n in range(40000 - len(kept), 40000)]


@at(EACH_LEVEL)
def test_output_without_a_line_end_is_visible_while_the_program_waits(pods: Pods) -> None:
    pod = pods.launch(pods.container("sh", "-c", "printf 'loading ...'; sleep 600"))
    pod.until_logged("loading ...")
    assert records(pod.folder / "logs/main/0/log") == [("P", b"loading ...")]


@at(EACH_LEVEL)
def test_a_process_that_fled_with_the_pipe_does_not_hold_the_pod_up(pods: Pods) -> None:
    pod = pods.launch(pods.container("sh", "-c", "setsid sleep 600 & echo out; exit 2"))
    assert pod.ended()["exitCode"] == 2
    assert pod.log() == "out\n"


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
@at(EACH_LEVEL)
def test_a_pod_on_a_full_disk_still_records_how_it_ended(pods: Pods, small_disk: Path) -> None:
    os.chmod(small_disk, 0o777)
    code = "print('\\n'.join(['x' * 99] * 30000)); raise SystemExit(21)"
    pod = pods.launch(pods.container(PYTHON, "-c", code), folder=small_disk / "pod")
    assert pod.ended()["exitCode"] == 21
    assert (pod.folder / "logs/main/0/log").stat().st_size < 2_000_000, "most of the output is lost"
    assert pod.status()["done"]


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A disk of 1 MiB."""
    disk = Path(tempfile.mkdtemp(prefix="tfjob-disk-"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], check=True)
    yield disk
    subprocess.run(["umount", disk], check=True)
    disk.rmdir()
