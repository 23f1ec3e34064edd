"""The log of a container as an API server sends it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta

import pytest

from tfjob.jobs.backend import Line
from tfjob.jobs.logs import LONGEST
from tfjob.kube.jobs.container_logs import LogLines, interleave, merge


def log(*lines: tuple[int, str]) -> bytes:
    """Return a log with these lines, each with its milliseconds."""
    return b"".join(f"2026-01-02T03:04:{5 + at // 1000:02}.{at % 1000:03}Z {text}\n".encode() for at, text in lines)


def texts(lines: list[Line]) -> list[str]:
    return [line.text for line in lines]


def test_a_line_has_the_time_the_label_and_the_text_of_the_log() -> None:
    (line,) = LogLines("worker-0").take(b"2026-01-02T03:04:05.123456789Z hello you\n")
    assert line == Line(datetime(2026, 1, 2, 3, 4, 5, 123456, tzinfo=UTC), "worker-0", "hello you")


def test_a_line_that_comes_in_pieces_is_one() -> None:
    whole = log((0, "hello"), (1, "you"))
    lines = LogLines("worker-0")
    assert texts([line for byte in whole for line in lines.take(bytes([byte]))]) == ["hello", "you"]


def test_an_unfinished_last_line_is_returned_at_the_end() -> None:
    lines = LogLines("worker-0")
    assert texts(lines.take(log((0, "hello")) + log((1, "step 3"))[:-1])) == ["hello"]
    assert texts(lines.end()) == ["step 3"]
    assert lines.end() == []


def test_lines_before_a_tail_stay_out_after_a_reconnection() -> None:
    whole = log((0, "tick 3"), (1, "tick 4"), (2, "dying"), (3, "dead"))
    lines = LogLines("worker-0", is_tail=True)
    assert texts(lines.take(log((2, "dying")))) == ["dying"]
    lines.reconnect()
    assert texts(lines.take(whole)) == ["dead"]


def test_a_message_of_the_kubelet_in_a_log_is_a_notice() -> None:
    lines = LogLines("worker-0")
    lines.take(log((0, "hello")))
    (line,) = lines.take(b"failed to try resolving symlinks in path /var/log: no such file\n")
    assert line.notice
    assert "failed to try resolving symlinks" in line.text


def test_a_redrawn_line_has_its_last_state_without_control_codes() -> None:
    lines = LogLines("worker-0")
    assert texts(lines.take(log((0, "10%\r20%\r100%"), (1, "a\x1b[2Jb")))) == ["100%", "ab"]


def test_a_very_long_line_is_split() -> None:
    first, second = LogLines("worker-0").take(log((0, "x" * (LONGEST + 10))))
    assert (len(first.text), first.more) == (LONGEST, True)
    assert (len(second.text), second.more) == (10, False)


@pytest.mark.parametrize(
    ("before", "after", "fresh"),
    [
        ([(0, "a"), (10, "b")], [(0, "a"), (10, "b"), (20, "c")], ["c"]),
        ([(0, "a"), (10, "b")], [(10, "b")], []),
        ([(0, "a"), (0, "b")], [(0, "a"), (0, "b"), (0, "c")], ["c"]),
        ([(0, "a"), (30, "late"), (20, "early")], [(0, "a"), (30, "late"), (20, "early"), (40, "c")], ["c"]),
        ([], [(0, "a")], ["a"]),
    ],
    ids=["more lines", "nothing new", "same instant", "two streams out of order", "nothing before"],
)
def test_after_a_broken_connection_only_new_lines_are_returned(
    before: list[tuple[int, str]], after: list[tuple[int, str]], fresh: list[str]
) -> None:
    lines = LogLines("worker-0")
    assert texts(lines.take(log(*before))) == [text for _, text in before]
    lines.reconnect()
    assert texts(lines.take(log(*after))) == fresh


def test_a_second_reconnection_repeats_nothing_either() -> None:
    lines = LogLines("worker-0")
    lines.take(log((0, "a"), (10, "b")))
    for _ in range(3):
        lines.reconnect()
        assert lines.take(log((0, "a"), (10, "b"))) == []


def test_the_log_is_read_again_from_shortly_before_the_latest_line() -> None:
    lines = LogLines("worker-0")
    assert lines.since is None
    lines.take(log((9000, "late"), (5000, "early")))
    assert lines.since == datetime(2026, 1, 2, 3, 4, 12, tzinfo=UTC)
    assert lines.time == datetime(2026, 1, 2, 3, 4, 14, tzinfo=UTC)


def at(seconds: int) -> Line:
    return Line(datetime(2026, 1, 2, 3, 4, tzinfo=UTC) + timedelta(seconds=seconds), "worker-0", str(seconds))


async def batches(*found: list[int]) -> AsyncGenerator[list[Line], None]:
    for numbers in found:
        await asyncio.sleep(0)
        yield [at(number) for number in numbers]


def test_the_lines_of_several_sources_are_merged_by_time() -> None:
    async def merged() -> list[str]:
        sources = [batches([1, 4], [], [7, 8]), batches(), batches([2], [3, 9], [])]
        return [line.text async for lines in merge(sources) for line in lines]

    assert asyncio.run(merged()) == list("1234789")


def test_a_source_that_waits_does_not_delay_the_lines_of_others() -> None:
    """And an interrupted reader closes all of them."""
    closed: list[str] = []

    async def waiting() -> AsyncGenerator[list[Line], None]:
        try:
            yield [at(1)]
            await asyncio.Event().wait()
        finally:
            closed.append("waiting")

    async def interleaved() -> list[str]:
        reader, found = interleave([waiting(), batches([2], [], [3])]), list[str]()
        async for lines in reader:
            found += texts(lines)
            if "3" in found:
                break
        await reader.aclose()
        return found

    async def over() -> list[str]:
        return [line.text async for lines in interleave([batches([1], [4]), batches([2])]) for line in lines]

    assert asyncio.run(interleaved()) == list("123")
    assert closed == ["waiting"]
    assert sorted(asyncio.run(over())) == list("124")
