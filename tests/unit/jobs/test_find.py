"""Find a job by what a user typed."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from support.golden import Wording
from tfjob.jobs.backend import NotFound
from tfjob.jobs.find import find, is_pattern, matching, not_found


@dataclass(frozen=True)
class Named:
    id: str
    name: str
    current: bool = True


JOBS = [
    Named("mnist.1", "mnist", current=False),
    Named("mnist.2", "mnist"),
    Named("census.1", "census", current=False),
    Named("mnist-large.1", "mnist-large"),
]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("mnist", "mnist.2"),
        ("mnist.1", "mnist.1"),
        ("mnist-", "mnist-large.1"),
        ("cens", "census.1"),
        ("@latest", "mnist-large.1"),
    ],
)
def test_a_name_an_id_a_beginning_or_the_latest(name: str, found: str) -> None:
    job = find(JOBS, name)
    assert job is not None
    assert job.id == found


@pytest.mark.parametrize(
    ("jobs", "name", "keyword"),
    [
        (JOBS, "censsu", "census"),
        (JOBS, "xyz", "tfjob ps -a --on k8s"),
        ([], "xyz", "tfjob run FILE --on k8s"),
        ([], "@latest", "tfjob run FILE --on k8s"),
    ],
)
def test_what_is_not_found_comes_with_a_hint(jobs: list[Named], name: str, keyword: str, wording: Wording) -> None:
    assert find(jobs, name) is None
    missing = not_found(jobs, name, "default", (), " --on k8s")
    assert keyword in f"{missing.message} {missing.hint}"
    wording(missing.message, missing.hint)


def test_a_beginning_of_several_names_is_refused(wording: Wording) -> None:
    with pytest.raises(NotFound) as several:
        find(JOBS, "mn")
    assert "mnist-large" in several.value.message
    wording(several.value.message, several.value.hint)


def test_a_job_of_another_namespace_is_pointed_to(wording: Wording) -> None:
    assert find(JOBS, "deep") is None
    missing = not_found(JOBS, "deep", "default", {"team", "default"})
    assert "-n team" in missing.hint
    wording(missing.hint)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("mnist-*", ["mnist-large.1"]),
        ("mnist*", ["mnist.1", "mnist.2", "mnist-large.1"]),
        ("censu[st]", ["census.1"]),
        ("?nist", ["mnist.1", "mnist.2"]),
        ("MNIST*", []),
        ("nist*", []),
    ],
)
def test_a_pattern_matches_whole_names(pattern: str, found: list[str]) -> None:
    assert is_pattern(pattern)
    assert [job.id for job in matching(JOBS, pattern)] == found


@pytest.mark.parametrize("name", ["mnist", "mnist.2", "@latest", "tfja/mnist", ""])
def test_a_name_is_not_a_pattern(name: str) -> None:
    assert not is_pattern(name)
