"""What replicas are doing, by what they say."""

from __future__ import annotations

from plan.builders import T0
from tfjob.jobs.backend import Line, Replica
from tfjob.jobs.progress import Doings


def said(doings: Doings, *lines: str, replica: str = "worker-0") -> None:
    for text in lines:
        doings.take(Line(T0, replica, text))


def doing(doings: Doings, attempts: int = 1, partial: str = "") -> str:
    worker = Replica("worker-0", "Running", attempts=attempts)
    return doings.look([worker], {"worker-0": partial} if partial else {})["worker-0"]


def test_a_replica_without_progress_shows_its_last_line_that_is_not_blank() -> None:
    doings = Doings()
    assert doing(doings) == ""
    said(doings, "\x1b[31mreading\tdata\x1b[0m", " ")
    assert doing(doings) == "reading data"


def test_progress_goes_before_the_last_line_and_stays() -> None:
    doings = Doings()
    said(doings, "step 1", "saved")
    assert doing(doings) == "step 1"
    said(doings, "saved again")
    assert doing(doings) == "step 1"


def test_a_line_that_is_being_redrawn_counts_as_it_stands() -> None:
    doings = Doings()
    said(doings, "Epoch 1/2")
    assert doing(doings, partial="3/40 [>....] - loss: 0.5") == "epoch 1/2 step 3/40 loss 0.5"
    assert doing(doings, partial="4/40 [>....] - loss: 0.4") == "epoch 1/2 step 4/40 loss 0.4"


def test_a_new_attempt_forgets_what_the_one_before_said() -> None:
    doings = Doings()
    said(doings, "step 100")
    assert doing(doings) == "step 100"
    assert doing(doings, attempts=2) == ""
    said(doings, "resumed from step 40")
    assert doing(doings, attempts=2) == "step 40"


def test_all_containers_of_a_replica_speak_for_it() -> None:
    doings = Doings()
    said(doings, "step 5", replica="worker-0/tensorflow")
    assert doing(doings) == "step 5"
