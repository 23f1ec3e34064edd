"""Reading container logs: joined lines, progress bars, rotation while reading, several replicas by time."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from support.golden import Wording
from tfjob.jobs.backend import Line
from tfjob.jobs.logs import LONGEST, readable
from tfjob.local.sandbox.container_log import ContainerLog
from tfjob.records import log_reader
from tfjob.records.log_reader import Follower, Source, choose, restarts

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def record(second: float, text: str, tag: str = "F") -> str:
    moment = START + timedelta(seconds=second)
    return f"{moment:%Y-%m-%dT%H:%M:%S.%f}Z stdout {tag} {text}\n"


def write(file: Path, *records: str) -> Source:
    """Append records to a file POD/logs/main/RUN/log; return its source."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as log:
        log.writelines(records)
    return Source(file.parents[2].name, file.parents[1])


def read(
    sources: list[Source], *, tail: int | None = None, since: datetime | None = None, previous: bool = False
) -> Iterator[Line]:
    runs: log_reader.Runs = {
        one.replica: [one.folder / str(number) for number in restarts(one.folder)] for one in sources
    }
    return log_reader.read(choose(runs, previous=previous), tail=tail, since=since)


def texts(lines: list[Line]) -> list[str]:
    return [line.text for line in lines]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "worker-0/main/0"


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"plain \xc3\xa4\ttab", "plain ä\ttab"),
        (b"\xff\xfebinary\x00\x07", "\ufffd\ufffdbinary"),
        (b"\x1b[31mred\x1b[0m plain", "\x1b[31mred\x1b[0m plain"),
        (b"\x1b[1;31mred", "\x1b[1;31mred\x1b[0m"),
        (b"\x1b[2K\x1b[1A\x1b[?25lline", "line"),
        (b"\x1b]0;title\x07text", "text"),
        (b"\x1b]8;;http://x\x1b\\link", "link"),
        (b"\x08\x08\x08ok", "ok"),
        (b"end\x1b", "end"),
        ("a\u0085b\u009b".encode(), "ab"),
    ],
)
def test_a_line_keeps_its_colours_and_nothing_that_moves_the_cursor(raw: bytes, shown: str) -> None:
    assert readable(raw) == shown


def test_parts_are_joined_and_a_redrawn_line_has_its_last_state(run: Path) -> None:
    source = write(
        run / "log",
        record(0, "load", "P"),
        record(1, "ing"),
        record(2, " 10%\r 20%\r", "P"),
        record(3, " 30%\r", "P"),
        record(4, ""),
        record(5, "old\rnew"),
        record(6, "windows\r"),
        record(7, "unfinished", "P"),
    )
    lines = list(read([source]))
    assert texts(lines) == ["loading", " 30%", "new", "windows", "unfinished"]
    assert lines[0] == Line(START + timedelta(seconds=1), "worker-0", "loading")


def test_lines_of_several_replicas_are_merged_by_time(tmp_path: Path) -> None:
    one = write(tmp_path / "a/main/0/log", record(1, "a1"), record(4, "a2"))
    two = write(tmp_path / "b/main/0/log", record(2, "b1"), record(3, "b2"), record(5, "b3"))
    assert texts(list(read([one, two]))) == ["a1", "b1", "b2", "a2", "b3"]


def test_rotated_files_are_read_in_order_and_missing_output_is_reported(run: Path, wording: Wording) -> None:
    source = write(run / "log", record(3, "three"))
    write(run / "log.2", record(1, "one"))
    write(run / "log.1", record(2, "two"))
    assert texts(list(read([source]))) == ["one", "two", "three"]
    (run / "truncated").write_text("4096\n")
    first, *rest = read([source])
    assert (first.notice, "4096" in first.text) == (True, True)
    wording(first.text)
    assert texts(rest) == ["one", "two", "three"]


@pytest.mark.parametrize(
    ("tail", "expected"),
    [
        (0, []),
        (1, ["5"]),
        (2, ["44", "5"]),
        (3, ["3", "44", "5"]),
        (5, ["1", "2", "3", "44", "5"]),
        (99, ["1", "2", "3", "44", "5"]),
    ],
)
def test_tail_counts_lines_across_files(run: Path, tail: int, expected: list[str]) -> None:
    source = write(run / "log", record(5, "4"), record(6, "5"))
    write(run / "log.1", record(3, "3"), record(4, "4", "P"))
    write(run / "log.2", record(1, "1"), record(2, "2"))
    assert texts(list(read([source], tail=tail))) == expected


def test_an_unfinished_line_at_the_end_counts_for_tail(run: Path) -> None:
    source = write(run / "log", record(1, "1"), record(2, "2"), record(3, "3", "P"))
    assert texts(list(read([source], tail=2))) == ["2", "3"]


def test_since_selects_lines_from_that_time_on(run: Path) -> None:
    source = write(run / "log", record(2, "two"), record(3, "three"))
    write(run / "log.1", record(1, "one"))
    assert texts(list(read([source], since=START + timedelta(seconds=2)))) == ["two", "three"]


def test_the_last_run_is_read_or_the_one_before_it(tmp_path: Path) -> None:
    source = write(tmp_path / "a/main/9/log", record(1, "nine"))
    assert texts(list(read([source], previous=True))) == []
    write(tmp_path / "a/main/10/log", record(2, "ten"))
    assert texts(list(read([source]))) == ["ten"]
    assert texts(list(read([source], previous=True))) == ["nine"]


def test_a_torn_record_is_skipped(run: Path) -> None:
    source = write(run / "log", record(1, "one"), "2026-01-0\n", "\n", record(2, "two"), "2026")
    assert texts(list(read([source]))) == ["one", "two"]


def test_a_rotated_file_may_end_without_a_newline(run: Path) -> None:
    """A complete last record is read even if the writer could not write its newline, also while following."""
    source = write(run / "log.1", record(1, "one"), record(2, "two").rstrip("\n"))
    write(run / "log")
    assert texts(list(read([source]))) == ["one", "two"]
    follower = Follower([source])
    assert texts(follower.poll()) == ["one", "two"]
    write(run / "log", record(3, "three"))
    assert texts(follower.finish()) == ["three"]


def test_nothing_written_yet_is_nothing(tmp_path: Path) -> None:
    source = Source("a", tmp_path / "a/main")
    assert list(read([source], tail=3)) == []
    assert Follower([source]).poll() == []


def test_every_run_of_a_new_container_is_followed(tmp_path: Path) -> None:
    """A new container is followed from its first run, even if it restarted before the first poll."""
    source = Source("a", tmp_path / "a/main")
    before = Follower([source])
    for number in range(3):
        write(tmp_path / f"a/main/{number}/log", record(number, f"run {number}"))
    assert texts(before.finish()) == ["run 0", "run 1", "run 2"]
    assert texts(Follower([source]).finish()) == ["run 2"]


def test_a_line_of_five_megabytes_comes_in_pieces_and_bounded_memory(run: Path) -> None:
    log = ContainerLog(str(run), 10 * 1024**2, 5)
    text = ("ä" * 40_000 + "x") * 63
    log.feed(text.encode() + b"\nnext\n")
    log.close()
    source = Source("a", run.parent)
    tracemalloc.start()
    try:
        length = sum(len(line.text) for line in read([source]))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert length == len(text) + len("next")
    assert peak < 16 * 1024**2
    *pieces, last, following = read([source])
    assert all(piece.more and len(piece.text.encode()) <= LONGEST for piece in pieces)
    assert "".join(texts([*pieces, last])) == text
    assert (last.more, following.text) == (False, "next")


def test_a_follower_keeps_the_unfinished_line_separate(run: Path) -> None:
    follower = Follower([Source("worker-0", run.parent)])
    write(run / "log", record(1, "one"), record(2, "12%\r", "P"))
    assert texts(follower.poll()) == ["one"]
    assert follower.partial() == {"worker-0": "12%"}
    assert follower.poll() == []
    write(run / "log", record(3, "99%\r", "P"), record(4, ""), record(5, "bye", "P"))
    assert texts(follower.poll()) == ["99%"]
    assert texts(follower.finish()) == ["bye"]
    assert follower.poll() == []


def test_a_record_seen_in_two_halves_is_one_record(run: Path) -> None:
    whole = record(1, "whole")
    follower = Follower([write(run / "log", whole[:20])])
    assert follower.poll() == []
    write(run / "log", whole[20:])
    assert texts(follower.finish()) == ["whole"]


def test_lines_written_just_before_a_rotation_are_not_lost(run: Path) -> None:
    follower = Follower([write(run / "log", record(1, "1"))])
    assert texts(follower.poll()) == ["1"]
    write(run / "log", record(2, "2"))
    (run / "log").rename(run / "log.1")
    assert texts(follower.poll()) == ["2"]
    assert follower.poll() == []
    write(run / "log", record(3, "3"))
    assert texts(follower.finish()) == ["3"]


def test_every_line_is_seen_once_and_in_order_while_files_rotate(run: Path) -> None:
    """A real writer with small files: the reader polls at random moments and misses nothing."""
    log = ContainerLog(str(run), 4096, 5)
    follower = Follower([Source("a", run.parent)])
    seen: list[str] = []
    for number in range(5000):
        log.feed(f"line {number}\n".encode())
        if number % 97 == 0:
            seen += texts(follower.poll())
    log.close()
    seen += texts(follower.finish())
    assert seen == [f"line {number}" for number in range(5000)]


def test_output_that_rotation_removed_before_it_was_read_is_reported(run: Path, wording: Wording) -> None:
    log = ContainerLog(str(run), 4096, 2)
    follower = Follower([Source("a", run.parent)])
    log.feed(b"first\n")
    assert texts(follower.poll()) == ["first"]
    for number in range(1000):
        log.feed(f"line {number}\n".encode())
    log.close()
    lines = follower.finish()
    where = next(index for index, line in enumerate(lines) if line.notice)
    before, after = texts(lines[:where]), texts(lines[where + 1 :])
    assert before == [f"line {number}" for number in range(len(before))]
    assert after == [f"line {number}" for number in range(1000 - len(after), 1000)]
    wording(lines[where].text)


def test_a_follower_continues_with_the_next_run(tmp_path: Path) -> None:
    source = write(tmp_path / "a/main/0/log", record(1, "zero"))
    follower = Follower([source])
    assert texts(follower.poll()) == ["zero"]
    write(tmp_path / "a/main/0/log", record(2, "late"), record(3, "cut", "P"))
    write(tmp_path / "a/main/1/log", record(4, "one"))
    write(tmp_path / "a/main/2/log", record(5, "two"))
    seen = []
    for _ in range(6):
        seen += texts(follower.poll())
    follower.close()
    assert seen == ["late", "cut", "one", "two"]


def test_tail_limits_existing_lines_only(tmp_path: Path) -> None:
    old = write(tmp_path / "a/main/0/log", record(1, "1"), record(2, "2"))
    new = Source("b", tmp_path / "b/main")
    follower = Follower([old, new], tail=1)
    write(tmp_path / "b/main/0/log", record(3, "3"), record(4, "4"))
    write(tmp_path / "a/main/0/log", record(5, "5"))
    assert texts(follower.poll()) == ["2", "3", "4", "5"]
    follower.close()


def test_a_follower_holds_no_file_after_its_end(tmp_path: Path) -> None:
    sources = [write(tmp_path / f"{number}/main/0/log", record(number, "x")) for number in range(9)]
    follower = Follower(sources, tail=5)
    assert len(follower.poll()) == 9
    follower.finish()
    list(read(sources))
    held = [os.path.realpath(f"/proc/self/fd/{one}") for one in os.listdir("/proc/self/fd")]
    assert [path for path in held if path.startswith(str(tmp_path))] == []
