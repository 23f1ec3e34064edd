from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.golden import Wording
from tfjob.errors import InvalidRequest
from tfjob.serve.answers import Answers, answers, bars, error_rate

ROWS = np.array([[0.1, 0.7, 0.2], [0.5, 0.2, 0.3]], np.float32)
CLASSES = np.array([1, 0])


@pytest.mark.parametrize(
    ("outputs", "classes"),
    [
        ({"digits": CLASSES, "probabilities": ROWS}, [1, 0]),
        ({"scores": ROWS}, [1, 0]),
        ({"class_ids": CLASSES[:, None].astype(np.int32)}, [1, 0]),
        ({"logits": np.array([[-3.0, -9.0]])}, [0]),
        ({"count": np.array(2), "scores": ROWS}, [1, 0]),
    ],
)
def test_the_class_is_a_whole_number_or_that_of_the_highest_score(outputs: dict[str, Any], classes: list[int]) -> None:
    assert answers(outputs).classes.tolist() == classes


def test_outputs_without_classes_and_scores_are_an_error() -> None:
    with pytest.raises(InvalidRequest, match="mean, name"):
        answers({"name": np.array([b"x"], object), "mean": np.array([0.5])})


def test_bars_show_the_probability_of_each_class(wording: Wording) -> None:
    many = np.zeros((1, 12), np.float32)
    many[0, [3, 11]] = 0.25, 0.75
    shown = [answers({"probabilities": ROWS}), answers({"x": many}), answers({"logits": np.array([[-4.0, 2.0, 0.0]])})]
    wording(*(line for one in shown for line in bars(one, 0)))
    assert bars(Answers(CLASSES), 0) == []


def test_the_error_rate_is_the_share_of_wrong_answers() -> None:
    assert error_rate(Answers(np.array([1, 2, 3, 4])), np.array([1, 2, 3, 5])) == 0.25
