"""The records of attached cluster jobs on this machine."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from support.plan.builders import job as built
from tfjob.api.objects import ObjectMeta, Pod
from tfjob.api.types import TFJob
from tfjob.jobs.backend import Line
from tfjob.jobs.logs import LONGEST
from tfjob.records import job_records
from tfjob.records.job_records import JobRecords
from tfjob.records.log_reader import RecordFollower, choose, read
from tfjob.records.pods import ContainerRun, write_spec

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def job(name: str = "mnist", uid: str = "12345678-1234", namespace: str = "team") -> TFJob:
    made = built(name, worker=2)
    metadata = replace(made.metadata, name=name, uid=uid, namespace=namespace, creation_timestamp=START)
    return replace(made, metadata=metadata)


def line(seconds: int, text: str, replica: str = "worker-0") -> Line:
    return Line(START + timedelta(seconds=seconds), replica, text)


def run(replica: str = "worker-0", uid: str = "aaaaaaaa-1", restart: int = 0, container: str = "main") -> ContainerRun:
    spec = {"initContainers": [{"name": "init"}], "containers": [{"name": "main"}]}
    return ContainerRun(Pod(metadata=ObjectMeta(name=f"mnist-{replica}", uid=uid), spec=spec), container, restart)


@pytest.fixture
def records(tmp_path: Path) -> JobRecords:
    return JobRecords(tmp_path / "records")


def texts(lines: Iterable[Line]) -> list[str]:
    return [one.text for one in lines]


def test_a_record_keeps_the_job_and_the_lines_of_each_run(records: JobRecords) -> None:
    records.begin(job()).add(
        [
            (line(0, "first"), run()),
            (line(1, "prepared", "worker-0/init"), run(uid="bbbbbbbb-1", container="init")),
            (line(2, "second"), run(uid="bbbbbbbb-1")),
            (line(3, "third"), run(uid="bbbbbbbb-1", restart=1)),
            (line(4, "other", "worker-1"), run("worker-1", uid="cccccccc-1")),
            (line(5, "fourth"), run(uid="bbbbbbbb-1", restart=1)),
        ]
    )
    kept = records.of(job())
    assert kept is not None
    assert kept.job.metadata.name == "mnist"
    runs = kept.runs()
    assert {label: len(known) for label, known in runs.items()} == {"worker-0": 3, "worker-0/init": 1, "worker-1": 1}
    assert texts(read(choose(runs))) == ["prepared", "third", "other", "fourth"]
    assert texts(read(choose(runs, previous=True))) == ["second"]
    assert texts(read(choose(kept.runs("worker-0/init")))) == ["prepared"]
    assert texts(read(choose(runs), tail=1)) == ["prepared", "other", "fourth"]
    assert texts(read(choose(runs), since=START + timedelta(seconds=5))) == ["fourth"]


def test_lines_are_read_as_they_were_kept(records: JobRecords) -> None:
    lines = [
        Line(START, "worker-0", "\x1b[31mred\x1b[0m ä", notice=False),
        Line(START, "worker-0", "[tfjob: the log cannot be read]", notice=True),
        Line(START + timedelta(microseconds=1), "worker-0", ""),
        Line(START + timedelta(seconds=1), "worker-0", "x" * LONGEST, more=True),
        Line(START + timedelta(seconds=1), "worker-0", "its end"),
    ]
    records.begin(job()).add((one, run()) for one in lines)
    kept = records.of(job())
    assert kept is not None
    assert list(read(choose(kept.runs()))) == lines


def test_a_container_that_has_not_restarted_yet_has_no_newest_run(records: JobRecords) -> None:
    writer = records.begin(job())
    writer.add([(line(0, "first"), run())])
    write_spec(writer.folder, run(uid="bbbbbbbb-1").pod, "worker-0")
    kept = records.of(job())
    assert kept is not None
    assert choose(kept.runs()) == {}
    assert texts(read(choose(kept.runs(), previous=True))) == ["first"]


def test_records_of_two_jobs_of_one_name_are_two(records: JobRecords) -> None:
    records.begin(job(uid="11111111-x"))
    records.begin(job(uid="22222222-x"))
    assert [kept.job.metadata.uid for kept in records.all("team")] == ["11111111-x", "22222222-x"]
    assert records.all("other") == []
    assert len(records.all()) == 2
    assert records.of(job(uid="33333333-x")) is None


def test_a_broken_record_is_left_out(records: JobRecords) -> None:
    writer = records.begin(job())
    (writer.folder / "job.json").write_bytes(b"{")
    assert records.all() == []


def test_the_size_of_a_record_is_limited(records: JobRecords, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_records, "MOST_BYTES", 1000)
    writer = records.begin(job())
    for number in range(1000):
        writer.add([(line(number, f"line {number}"), run())])
    kept = records.of(job())
    assert kept is not None
    notice, *found = read(choose(kept.runs()))
    assert notice.notice
    assert texts(found) == [f"line {number}" for number in range(1000 - len(found), 1000)]
    assert 50 < len(found) < 200
    assert sum(file.stat().st_size for file in writer.folder.rglob("log*") if file.is_file()) < 6000


def test_a_follower_of_a_record_gets_every_line_of_it(records: JobRecords, monkeypatch: pytest.MonkeyPatch) -> None:
    """Including new containers, restarts, and files that are renamed meanwhile."""
    monkeypatch.setattr(job_records, "MOST_BYTES", 1000)
    writer = records.begin(job())
    writer.add([(line(0, "before"), run())])
    writer.add([(line(0, "restarted"), run(restart=1))])
    follower = RecordFollower(writer.folder)
    found = list[str]()
    for number in range(100):
        replica, restart = f"worker-{number % 2}", 1 + number // 50
        writer.add([(line(number, f"line {number}", replica), run(replica, restart=restart))])
        follower.add_pods(job())
        while number % 10 == 9 and (lines := follower.poll()):
            found += texts(lines)
    follower.close()
    assert sorted(found) == sorted(["before", "restarted", *(f"line {number}" for number in range(100))])


def test_a_full_disk_costs_the_record_and_is_reported(records: JobRecords) -> None:
    writer = records.begin(job())
    log = run().folder(writer.folder) / "log"
    log.parent.mkdir(parents=True)
    log.symlink_to("/dev/full")
    lost = line(0, "x" * 100_000)
    assert writer.add([(lost, run()), (lost, run())]) == [lost, lost]
    assert (writer.trouble, writer.lost) == ("No space left on device", 2)


def test_after_a_full_disk_the_next_line_is_whole(records: JobRecords) -> None:
    writer = records.begin(job())
    log = run().folder(writer.folder) / "log"
    log.parent.mkdir(parents=True)
    log.symlink_to("/dev/full")
    writer.add([(line(0, "lost"), run())])
    log.unlink()
    log.write_bytes(b"2026-01-02T03:04:05Z std")
    writer.add([(line(1, "whole"), run())])
    kept = records.of(job())
    assert kept is not None
    assert texts(read(choose(kept.runs()))) == ["whole"]


def test_a_record_is_private_and_can_be_removed(records: JobRecords) -> None:
    folder = records.begin(job()).folder
    assert folder.stat().st_mode & 0o777 == 0o700
    records.remove(job())
    assert not folder.exists()
