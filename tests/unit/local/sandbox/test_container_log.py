"""Output becomes CRI lines in rotated files; nothing that a program writes, or a disk does, can hurt the writer."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from support.local.log_lines import records, text
from tfjob.local.sandbox.container_log import ContainerLog, TerminationMessage, plain_tail, timestamp
from tfjob.local.sandbox.pod_spec import ContainerSpec

SPEC: ContainerSpec = {
    "name": "tensorflow",
    "argv": [],
    "cwd": "/",
    "mounts": [],
    "memory": 0,
    "cpu": 0.0,
    "limits": "off",
    "terminationMessagePath": "",
    "terminationMessagePolicy": "FallbackToLogsOnError",
}


@pytest.fixture
def log(tmp_path: Path) -> ContainerLog:
    return ContainerLog(str(tmp_path), 10 << 20, 5)


def test_lines_are_written_whole_however_they_arrive(log: ContainerLog, tmp_path: Path) -> None:
    for piece in (b"one\ntw", b"o\n", b"\nfour"):
        log.feed(piece)
    log.close()
    assert records(tmp_path / "log") == [("F", b"one"), ("F", b"two"), ("F", b""), ("P", b"four")]


def test_a_line_without_an_end_is_shown_after_a_moment_by_the_age_of_its_oldest_byte(
    log: ContainerLog, tmp_path: Path
) -> None:
    log.feed(b"wait")
    first = log.flush_in()
    time.sleep(0.1)
    log.feed(b"ing")
    second = log.flush_in()
    assert first is not None
    assert second is not None
    assert second < first
    log.flush()
    assert log.flush_in() is None
    log.feed(b" done\n")
    log.close()
    assert records(tmp_path / "log") == [("P", b"waiting"), ("F", b" done")]


def test_a_long_line_is_cut_into_parts_of_64_kib(log: ContainerLog, tmp_path: Path) -> None:
    line = bytes(range(33, 126)) * 60_000
    for start in range(0, len(line), 65536):
        log.feed(line[start : start + 65536])
    log.feed(b"\nnext\n")
    log.close()
    assert text(tmp_path / "log") == line + b"\nnext\n"
    assert max(len(part) for _, part in records(tmp_path / "log")) <= 65536


def test_a_long_line_that_arrives_at_once_is_cut_too(log: ContainerLog, tmp_path: Path) -> None:
    line = b"x" * 200_000
    log.feed(b"a\n" + line + b"\nb\n")
    log.close()
    assert text(tmp_path / "log") == b"a\n" + line + b"\nb\n"


def test_rotation_keeps_the_newest_files_and_notes_what_is_gone(tmp_path: Path) -> None:
    log = ContainerLog(str(tmp_path), 1000, 3)
    for number in range(100):
        log.feed(f"line {number:04}\n".encode() * 5)
    log.close()
    assert sorted(os.listdir(tmp_path)) == ["log", "log.1", "log.2", "truncated"]
    kept = b"".join(text(tmp_path / name) for name in ("log.2", "log.1", "log"))
    everything = b"".join(f"line {number:04}\n".encode() * 5 for number in range(100))
    assert everything.endswith(kept)
    gone = int((tmp_path / "truncated").read_text())
    prefix = len(timestamp(0)) + len(" stdout F ")
    assert gone == (len(everything) - len(kept)) + prefix * (500 - kept.count(b"\n"))


def test_a_folder_that_cannot_be_written_costs_the_output_only(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    log = ContainerLog(str(tmp_path / "file" / "below"), 1000, 3)
    log.feed(b"lost\n")
    assert log.lost > 0
    assert plain_tail(log.tail, 5, 100) == "lost"
    log.close()


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (b"a\nb\nc\n", "b\nc"),
        (b"a\nb", "a\nb"),
        (b"", ""),
        (b"1/3\r2/3\r3/3\n", "3/3"),
        (b"1/3\r2/3\r\n", "2/3"),
        (b"\x1b[1;31mred\x1b[0m\x1b]0;title\x07!\n", "red!"),
        (b"\xff\xfe ok\n", "\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER} ok"),
        (
            "gr\N{LATIN SMALL LETTER U WITH DIAERESIS}n\t\x00x\n".encode(),
            "gr\N{LATIN SMALL LETTER U WITH DIAERESIS}n\tx",
        ),
        (b"end\n\n\n", "end"),
    ],
)
def test_the_tail_is_plain_text(output: bytes, expected: str) -> None:
    assert plain_tail(output, 2, 4096) == expected


def test_the_tail_is_limited_in_bytes_between_characters() -> None:
    tail = plain_tail(("\N{EURO SIGN}" * 5000).encode(), 20, 4096)
    assert len(tail.encode()) <= 4096
    assert set(tail) == {"\N{EURO SIGN}"}


def test_timestamps_are_rfc3339_in_utc() -> None:
    assert timestamp(0) == "1970-01-01T00:00:00.000000Z"
    assert timestamp(1700000000.9999999) == "2023-11-14T22:13:21.000000Z"


@pytest.mark.parametrize(("begin", "count"), [("Traceback (most recent call last):", 301), ("begin", 20)])
def test_a_termination_message_has_a_whole_traceback_or_the_last_lines(
    log: ContainerLog, tmp_path: Path, begin: str, count: int
) -> None:
    log.feed("\n".join([begin, *(f'  File "x.py", line {number}, in f' for number in range(300))]).encode())
    lines = TerminationMessage(str(tmp_path), SPEC).read(1, log).split("\n")
    assert len(lines) == count
    assert lines[-1].endswith("line 299, in f")


def test_a_traceback_in_a_termination_message_is_limited_in_bytes(log: ContainerLog, tmp_path: Path) -> None:
    log.feed(b"Traceback (most recent call last):\n" + b"x" * 31_000 + b"\n" + b"y" * 20_000)
    assert len(TerminationMessage(str(tmp_path), SPEC).read(1, log)) <= 32 * 1024
