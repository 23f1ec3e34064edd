"""When a driver looks again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from tfjob.durations import Durations
from tfjob.local.run.wakeups import Wakeups
from tfjob.local.sandbox import syscalls

LONG_REST = 60.0
"""Seconds of a rest that nothing ends; half of them are more than a busy machine takes to notice anything."""


def paused(folder: Path, meanwhile: Callable[[], object], rest: float = LONG_REST) -> float:
    """Return the seconds that a pause takes while something happens 50 ms after its start."""

    async def measured() -> float:
        found = Wakeups(Durations(driver_rest=timedelta(seconds=rest)))
        found.watch(folder)
        try:
            await found.pause()  # the look that a new watch asks for
            await found.pause()
            asyncio.get_running_loop().call_later(0.05, meanwhile)
            begun = time.monotonic()
            await found.pause()
            return time.monotonic() - begun
        finally:
            found.close()

    return asyncio.run(measured())


def test_a_pause_ends_when_a_file_is_replaced_written_or_made(tmp_path: Path) -> None:
    (tmp_path / "draft").write_text("new")
    assert paused(tmp_path, lambda: (tmp_path / "draft").rename(tmp_path / "status.json")) < LONG_REST / 2
    assert paused(tmp_path, lambda: (tmp_path / "log").write_text("a line")) < LONG_REST / 2


def test_a_pause_ends_when_a_writer_dies_and_not_when_a_reader_leaves(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    writer = (tmp_path / "lock").open("r+")
    assert paused(tmp_path, writer.close) < LONG_REST / 2
    reader = (tmp_path / "lock").open()
    assert paused(tmp_path, reader.close, rest=1.0) >= 0.9


def test_where_the_kernel_tells_nothing_looks_come_by_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused() -> int:
        raise OSError(24, "inotify_init1: Too many open files")

    monkeypatch.setattr(syscalls, "inotify", refused)
    assert paused(tmp_path, lambda: None) < LONG_REST / 2


def test_much_that_happens_does_not_make_more_looks(tmp_path: Path) -> None:
    async def looks() -> int:
        found, end, count = Wakeups(), time.monotonic() + 0.5, 0
        found.watch(tmp_path)
        while time.monotonic() < end:
            (tmp_path / "log").write_text("a line")
            await found.pause()
            count += 1
        found.close()
        return count

    assert asyncio.run(looks()) <= 12
