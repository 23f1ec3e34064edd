"""The progress of a training, parsed from its output."""

from __future__ import annotations

import pytest

from support.plan.builders import T0
from tfjob.jobs.backend import Line, Replica
from tfjob.jobs.progress import Doings, Progress

KERAS_3 = "\x1b[1m120/938\x1b[0m \x1b[32m━━\x1b[0m\x1b[37m━━━━━━━━━━━━━━━━━━\x1b[0m \x1b[1m2s\x1b[0m 3ms/step"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("step 120", "step 120"),
        ("step 300/600 loss 0.31", "step 300/600 50% loss 0.31"),
        ("worker 1: step=7 of 10", "step 7/10 70%"),
        ("Step #12: loss: 1.5e-05", "step 12 loss 1.5e-05"),
        ("iteration 5", "step 5"),
        ("[iter: 5/20]", "step 5/20 25%"),
        ("batch 5/100", "step 5/100 5%"),
        ("INFO:tensorflow:loss = 0.25, step = 200 (0.512 sec)", "step 200 loss 0.25"),
        ("resumed from global_step 40", "step 40"),
        ("step 11/10", "step 11/10 100%"),
        ("Epoch 3/10", "epoch 3/10"),
        ("epoch: 4", "epoch 4"),
        ("Epoch [2/5], Step [7/40], Loss: nan", "epoch 2/5 step 7/40 loss nan"),
        (f"{KERAS_3} - accuracy: 0.9102 - loss: 0.3011", "step 120/938 12% loss 0.3011"),
        ("  5/Unknown \x1b[1m0s\x1b[0m 2ms/step - loss: 2.5", "step 5 loss 2.5"),
        ("120/938 [==>...........] - ETA: 2s - loss: 0.3 - val_loss: 0.9", "step 120/938 12% loss 0.3"),
        ("938/938 - 2s - 2ms/step - val_loss: 0.9 - loss: 0.1", "step 938/938 100% loss 0.1"),
        (" 42%|████▏     | 420/1000 [00:05<00:07, 80.11it/s, loss=0.3]", "step 420/1000 42% loss 0.3"),
        ("INFO:tensorflow:global_step/sec: 83.2", ""),
        ("3ms/step", ""),
        ("step 0.5 of the way", ""),
        ("first step 12ms", ""),
        ("batch=32", ""),
        ("steps: 600, epochs: 3", ""),
        ("10/12 tests passed", ""),
        ("loss 0.3", ""),
        ("", ""),
    ],
)
def test_a_well_known_shape_is_read_and_no_other(line: str, said: str) -> None:
    assert str(Progress().after(line)) == said


def test_the_bar_of_an_epoch_keeps_its_epoch_and_the_next_one_begins_anew() -> None:
    progress = Progress()
    shown = []
    for line in ("Epoch 1/2", "7/40 [==>..] - loss: 0.5", "saving", "Epoch 2/2", "1/40 [>...] - loss: 0.4"):
        progress = progress.after(line)
        shown.append(str(progress))
    first = "epoch 1/2 step 7/40 loss 0.5"
    assert shown == ["epoch 1/2", first, first, "epoch 2/2", "epoch 2/2 step 1/40 loss 0.4"]


# --- what replicas are doing, by what they say ------------------------------------------------------------------------


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
