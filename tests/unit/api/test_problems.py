from __future__ import annotations

import pytest

from tfjob.api.problems import InvalidManifest, Path, Problem, in_order, path_parts, path_text


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), ""),
        (("spec", "containers", 0, "image"), "spec.containers[0].image"),
        (("limits", "nvidia.com/gpu"), 'limits["nvidia.com/gpu"]'),
        (("data", "0"), 'data["0"]'),
        (("data", 'a"b', "c"), 'data["a\\"b"].c'),
        (("items", 0, 1), "items[0][1]"),
        (("spec", "<type>", "replicas"), "spec.<type>.replicas"),
    ],
)
def test_a_path_is_written_as_people_write_it_and_read_back(path: Path, text: str) -> None:
    assert path_text(path) == text
    assert path_parts(text) == path


@pytest.mark.parametrize(
    ("problem", "line"),
    [
        (
            Problem("spec.image", "is missing", "add it", 12, 9, "train.yaml"),
            "train.yaml:12:9: spec.image: is missing; add it",
        ),
        (Problem("", "is empty", source="a.yaml"), "a.yaml: is empty"),
        (Problem("spec", "odd", warning=True), "warning: spec: odd"),
    ],
)
def test_a_problem_is_one_line(problem: Problem, line: str) -> None:
    assert str(problem) == line


def test_problems_come_in_the_order_of_the_file_and_once() -> None:
    late, early = Problem("b", "x", line=9), Problem("a", "x", line=2)
    assert in_order([late, early, late]) == [early, late]


def test_an_invalid_manifest_says_all_its_problems() -> None:
    error = InvalidManifest([Problem("a", "x"), Problem("b", "y")])
    assert str(error) == "a: x\nb: y"
    assert len(error.problems) == 2


def test_a_value_as_long_as_a_file_is_not_printed_whole_and_what_is_wrong_with_it_is() -> None:
    said = str(Problem("spec.name", f"{'x' * 5000} is no name", f"did you mean {'y' * 5000}?"))
    assert len(said) < 1500
    assert said.startswith("spec.name: xxx")
    assert "xxx is no name; did you mean yyy" in said
