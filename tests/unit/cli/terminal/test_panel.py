"""The table of a live view, for each size of a terminal."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from rich.cells import cell_len

from support.command_line import GOLDEN
from support.golden import Wording, check_golden
from support.plan.builders import T0, at, job
from tfjob.api.types import TFJobStatus
from tfjob.cli.terminal.panel import paint, panel
from tfjob.jobs.backend import Record, Replica, Usage
from tfjob.jobs.progress import Snapshot

HINT = "Ctrl-C stops it"


def snapshot(
    name: str, replicas: Sequence[Replica], state: str = "Running", doing: str = "", **status: object
) -> Snapshot:
    made = job(name, worker=len(replicas), status=TFJobStatus(state=state, **status))  # type: ignore[arg-type]
    record = Record(made, f"{name}.1", state, made.status.reason, created=T0)
    return Snapshot(record, replicas, doing={replica.name: doing for replica in replicas})


def workers(count: int, phase: str = "Running") -> list[Replica]:
    return [Replica(f"worker-{index}", phase, attempts=1) for index in range(count)]


TRAINING = Snapshot(
    snapshot("mnist", [], ready="2/4", restarts=2, reason="Unschedulable", message="worker-2: no node is free").record,
    [
        Replica("chief-0", "Running", attempts=1),
        Replica("worker-0", "Running", shown="CrashLoopBackOff", attempts=3),
        Replica("worker-1", "Failed", attempts=2, exit_code=3),
        Replica("worker-2", "Pending"),
        Replica("evaluator-0", "Succeeded", attempts=1, exit_code=0),
    ],
    usage={"chief-0": Usage(1.5312, 1023 << 20), "worker-0": Usage(None, 9 << 30)},
    doing={
        "chief-0": "epoch 3/10 step 120/938 loss 0.31",
        "worker-1": "ValueError: no data",
        "evaluator-0": "评估完成 ✓ accuracy 0.97",
    },
)


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_job_is_shown_as_its_golden_text(width: int) -> None:
    lines = [line.plain for line in panel([TRAINING], at(72), width, 24, HINT)]
    check_golden(GOLDEN / f"panel-{width}.txt", "".join(f"{line}\n" for line in lines))


@pytest.mark.parametrize("width", [1, 2, 7, 20, 40, 61, 80, 120, 500])
@pytest.mark.parametrize("height", [1, 2, 5, 10, 24, 100])
def test_no_line_is_wider_and_no_panel_higher_than_there_is_room(width: int, height: int) -> None:
    many = snapshot("many", workers(50), doing="进度 " * 100)
    lines = panel([TRAINING, many], at(3), width, height, HINT)
    assert 1 <= len(lines) <= max(1, height // 2)
    assert all(cell_len(line.plain) < max(2, width) for line in lines)


def test_replicas_that_do_not_fit_are_counted_and_those_in_trouble_are_shown(wording: Wording) -> None:
    replicas = workers(50)
    replicas[40] = Replica("worker-40", "Failed", attempts=1, exit_code=1)
    replicas[45:] = workers(50, "Pending")[45:]
    lines = [line.plain.split() for line in panel([snapshot("many", replicas)], at(3), 80, 24, HINT)]
    assert [words[0] for words in lines[2:10]] == [
        *("worker-0", "worker-1", "worker-40"),
        *(f"worker-{index}" for index in range(45, 50)),
    ]
    assert lines[10].count("42") == 2
    wording(" ".join(lines[10]))


def test_every_replica_has_a_row_where_there_is_room() -> None:
    lines = [line.plain for line in panel([snapshot("many", workers(50))], at(3), 80, 110)]
    assert sum(line.startswith("  worker-") for line in lines) == 50
    assert not any("more" in line for line in lines)


def test_several_jobs_share_the_room(wording: Wording) -> None:
    jobs = [snapshot(name, workers(10)) for name in ("one", "two")]
    lines = [line.plain for line in panel(jobs, at(3), 80, 24)]
    heads = [index for index, line in enumerate(lines) if line.startswith("── ")]
    assert heads == [0, 6]
    assert lines[5] == lines[10]
    wording(lines[5])


def test_more_jobs_than_lines_are_counted(wording: Wording) -> None:
    jobs = [snapshot(f"job-{index}", workers(2)) for index in range(20)]
    lines = [line.plain for line in panel(jobs, at(3), 80, 8)]
    *heads, rest = (line.split(" · ")[0] for line in lines)
    assert heads == ["── job-0", "── job-1", "── job-2"]
    assert "17" in rest
    wording(rest)


@pytest.mark.parametrize("colour", [True, False])
def test_a_painted_line_has_colours_only_if_they_are_wanted_and_knows_its_width(colour: bool) -> None:
    lines = panel([TRAINING], at(3), 80, 24, HINT)
    painted = paint(lines, colour=colour)
    assert [line.cells for line in painted] == [cell_len(line.plain) for line in lines]
    assert any("\x1b[" in line.text for line in painted) is colour
