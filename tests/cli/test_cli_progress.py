"""What a line says of a training's progress."""

from __future__ import annotations

import pytest

from tfjob.jobs.progress import Progress

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
