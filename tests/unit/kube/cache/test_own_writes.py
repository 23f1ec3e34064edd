"""What a pass reads between a write and its echo in the caches."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tfjob.api.objects import ObjectMeta, Pod, Service
from tfjob.controller.kind import Stored
from tfjob.durations import USUAL
from tfjob.kube.cache.own_writes import OwnWrites

JOB = "job-uid"


def pod(uid: str, *, deleted: bool = False, version: str = "") -> Pod:
    stamp = datetime(2026, 1, 1, tzinfo=UTC) if deleted else None
    metadata = ObjectMeta(name=f"pod-{uid}", namespace="n", uid=uid, deletion_timestamp=stamp, resource_version=version)
    return Pod(metadata=metadata)


def job(version: int, uid: str = JOB) -> Stored:
    return Stored("TFJob", ObjectMeta(name="j", namespace="n", uid=uid, resource_version=str(version)), b"{}", b"{}")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def names(writes: OwnWrites, *cached: Pod) -> list[str]:
    return [child.metadata.uid for child in writes.children(Pod, JOB, cached)]


def test_a_created_child_counts_once_before_and_after_the_cache_shows_it() -> None:
    writes = OwnWrites()
    writes.created(JOB, pod("a"))
    assert names(writes) == ["a"]
    assert names(writes, pod("a")) == ["a"]
    writes.seen(JOB, None, pod("a"))
    assert names(writes, pod("a")) == ["a"]
    assert names(writes) == []


def test_a_created_child_that_a_later_list_does_not_show_is_gone() -> None:
    writes = OwnWrites()
    writes.created(JOB, pod("a", version="5"))
    writes.created(JOB, pod("b", version="7"))
    assert list(writes.missed("Service", "6")) == []
    assert names(writes) == ["a", "b"]
    assert list(writes.missed("Pod", "6")) == [JOB]
    assert names(writes) == ["b"], "made after the list was taken"
    assert list(writes.missed("Pod", "8")) == [JOB]
    assert names(writes) == []


def test_a_created_child_is_returned_for_its_kind_only() -> None:
    writes = OwnWrites()
    writes.created(JOB, pod("a"))
    assert writes.children(Service, JOB, ()) == []
    assert writes.children(Pod, "another job", ()) == []


def test_a_child_that_ended_before_the_answer_came_does_not_come_back() -> None:
    """The watch can be faster than the answer to the request that created the child."""
    writes = OwnWrites()
    writes.seen(JOB, None, pod("a"))
    writes.seen(JOB, pod("a"), None)
    writes.created(JOB, pod("a"))
    assert names(writes) == []


def test_a_deleted_child_is_terminating_before_the_cache_shows_it() -> None:
    writes = OwnWrites()
    writes.deleted("a")
    (child,) = writes.children(Pod, JOB, [pod("a")])
    assert child.metadata.deletion_timestamp is not None


def test_a_deletion_is_forgotten_when_the_cache_shows_it() -> None:
    writes = OwnWrites()
    writes.deleted("a")
    writes.seen(JOB, pod("a"), pod("a", deleted=True))
    assert writes.children(Pod, JOB, [pod("a")])[0].metadata.deletion_timestamp is None


def test_a_child_that_never_appears_is_given_up() -> None:
    clock = Clock()
    writes = OwnWrites(clock)
    writes.created(JOB, pod("a"))
    clock.now = USUAL.own_write.total_seconds() - 1
    assert list(writes.expired()) == []
    clock.now = USUAL.own_write.total_seconds() + 1
    assert list(writes.expired()) == [JOB]
    assert names(writes) == []


def test_a_written_status_counts_until_the_cache_shows_it() -> None:
    writes = OwnWrites()
    writes.written(job(7), job(5))
    assert writes.owner(job(5)) == job(7)
    assert writes.seen_owner(job(7).key, job(7))
    assert writes.owner(job(5)) == job(5)


@pytest.mark.parametrize(
    ("shown", "is_echo"),
    [
        pytest.param(job(6), True, id="an older version, sent before our write"),
        pytest.param(job(7), True, id="our own version"),
        pytest.param(job(8), False, id="a newer version of another client"),
        pytest.param(None, False, id="the job is gone"),
        pytest.param(job(3, uid="next"), False, id="another job has the name"),
    ],
)
def test_only_writes_of_others_are_changes(shown: Stored | None, is_echo: bool) -> None:
    writes = OwnWrites()
    writes.written(job(7), job(5))
    assert writes.seen_owner(job(7).key, shown) is is_echo


def test_a_late_answer_does_not_hide_a_newer_version() -> None:
    """Otherwise every later write would be rejected as stale."""
    writes = OwnWrites()
    writes.written(job(7), job(8))
    assert writes.owner(job(8)) == job(8)
