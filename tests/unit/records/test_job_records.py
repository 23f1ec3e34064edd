"""What attached runs keep on this machine of jobs of a cluster."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from support.plan.builders import job as built
from tfjob.api.types import TFJob
from tfjob.jobs.backend import Line
from tfjob.records import job_records
from tfjob.records.job_records import MISSING, JobRecords, RecordReader

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def job(name: str = "mnist", uid: str = "12345678-1234", namespace: str = "team") -> TFJob:
    made = built(name, worker=2)
    metadata = replace(made.metadata, name=name, uid=uid, namespace=namespace, creation_timestamp=START)
    return replace(made, metadata=metadata)


def line(seconds: int, replica: str, text: str) -> Line:
    return Line(START + timedelta(seconds=seconds), replica, text)


@pytest.fixture
def records(tmp_path: Path) -> JobRecords:
    return JobRecords(tmp_path / "records")


def test_a_record_keeps_the_job_and_the_lines_of_each_run_of_a_container(records: JobRecords) -> None:
    writer = records.begin(job())
    for at, run, text in ((0, "a/0", "first"), (1, "a/1", "second"), (2, "a/1", "third")):
        writer.add(line(at, "worker-0", text), run)
    writer.add(line(3, "worker-1", "other"), "b/0")
    writer.close()
    kept = records.of(job())
    assert kept is not None
    assert kept.job.metadata.name == "mnist"
    assert kept.labels() == ["worker-0", "worker-1"]
    assert kept.runs() == {"worker-0": ["a/0", "a/1"], "worker-1": ["b/0"]}
    both = kept.lines_of({"worker-0": "a/1", "worker-1": "b/0"}, tail=None, since=None)
    assert [one.text for one in both] == ["second", "third", "other"]
    assert [one.text for one in kept.lines_of({"worker-0": "a/1"}, tail=1, since=None)] == ["third"]
    since = START + timedelta(seconds=2)
    assert [one.text for one in kept.lines_of({"worker-0": "a/1"}, tail=None, since=since)] == ["third"]


def test_records_of_two_jobs_of_one_name_are_two(records: JobRecords) -> None:
    records.begin(job(uid="11111111-x")).close()
    records.begin(job(uid="22222222-x")).close()
    assert [kept.job.metadata.uid for kept in records.all("team")] == ["11111111-x", "22222222-x"]
    assert records.all("other") == []
    assert len(records.all()) == 2
    assert records.of(job(uid="33333333-x")) is None


def test_a_torn_line_and_a_broken_record_are_left_out(records: JobRecords, tmp_path: Path) -> None:
    writer = records.begin(job())
    writer.add(line(0, "worker-0", "whole"), "a/0")
    writer.close()
    with (writer.folder / "lines.jsonl").open("ab") as file:
        file.write(b'["2026-01-02T03:04:05Z","worker-0","to')
    kept = records.of(job())
    assert kept is not None
    assert [one.text for one in kept.lines()] == ["whole"]
    (writer.folder / "job.json").write_bytes(b"{")
    assert records.all() == []


def test_a_record_does_not_grow_without_end(records: JobRecords, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_records, "MOST_BYTES", 1000)
    writer = records.begin(job())
    for number in range(100):
        writer.add(line(number, "worker-0", f"line {number}"), "a/0")
    writer.close()
    kept = records.of(job())
    assert kept is not None
    found = [one.text for one in kept.lines()]
    assert found[-1] == "line 99"
    assert 10 < len(found) < 60
    assert sum(file.stat().st_size for file in writer.folder.glob("lines*")) < 2500


def test_who_reads_late_reads_every_line_that_was_kept_since(
    records: JobRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those of a file that has become the older one, or was thrown away while it was read."""
    monkeypatch.setattr(job_records, "MOST_BYTES", 1000)
    monkeypatch.setattr(job_records, "AT_ONCE", 100)
    writer = records.begin(job())
    reader, read = RecordReader(writer), list[str]()
    for number in range(100):
        writer.add(line(number, "worker-0", f"line {number}"), "a/0")
        while number % 10 == 9 and (lines := reader.read()):
            read += [one.text for one in lines]
    reader.close()
    writer.close()
    assert writer.files > 4
    assert read == [f"line {number}" for number in range(100)]


def test_who_reads_much_too_late_is_told_that_lines_are_missing(
    records: JobRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_records, "MOST_BYTES", 1000)
    writer = records.begin(job())
    writer.add(line(0, "worker-0", "line 0"), "a/0")
    reader = RecordReader(writer)
    for number in range(1, 100):
        writer.add(line(number, "worker-0", f"line {number}"), "a/0")
    read = list[str]()
    while lines := reader.read():
        read += [one.text for one in lines]
    assert read.count(MISSING) == 1
    before, after = read.index(MISSING), len(read) - read.index(MISSING) - 1
    assert read == [
        *(f"line {n}" for n in range(1, before + 1)),
        MISSING,
        *(f"line {n}" for n in range(100 - after, 100)),
    ]
    reader.close()
    writer.close()


def test_a_full_disk_costs_the_record_and_is_told(records: JobRecords) -> None:
    writer = records.begin(job())
    (writer.folder / "lines.jsonl").symlink_to("/dev/full")
    writer.add(line(0, "worker-0", "x" * 100_000), "a/0")
    writer.flush()
    writer.close()
    assert writer.trouble == "No space left on device"


def test_the_record_is_private_and_goes_when_it_is_removed(records: JobRecords) -> None:
    folder = records.begin(job()).folder
    assert folder.stat().st_mode & 0o777 == 0o700
    kept = records.of(job())
    assert kept is not None
    kept.remove()
    assert not folder.exists()
