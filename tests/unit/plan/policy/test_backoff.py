"""How long who waits before it starts again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from support.golden import Wording
from support.plan.builders import PodBuilder, after, at, begun, created_pods, job, pod, running, see
from tfjob.api.dialect import BATCH
from tfjob.api.types import BackOff, TFJob, TFJobStatus
from tfjob.plan.facts.tasks import desired
from tfjob.plan.plan import JobPlan
from tfjob.plan.policy import backoff
from tfjob.plan.policy.backoff import held_back, next_starts

ALONE: dict[str, Any] = {"chief": 1, "worker": 2, "ps": 1}
TOGETHER: dict[str, Any] = {"chief": 1, "worker": 1, "evaluator": 1}


@dataclass
class Story:
    """A job of which some tasks end now and then; whoever may start is running a second later."""

    job: TFJob
    second: float = 0

    def end(self, **ends: int | None) -> JobPlan:
        """Tasks end now by an exit code, or by an eviction; the others run, as far as they may."""
        ended = [self._ended(name.replace("_", "-"), code) for name, code in ends.items()]
        names = {one.pod.metadata.name for one in ended}
        outcome = see(
            self.job, [*ended, *(one for one in self._there() if one.pod.metadata.name not in names)], self.second
        )
        self.job = after(self.job, outcome)
        return outcome

    def start(self) -> None:
        """Who may start, does."""
        self.job = after(self.job, see(self.job, self._there(), self.second))

    def waits(self) -> dict[str, float]:
        """Who is held back, and for how many seconds yet."""
        known = self.job.status.back_off
        held = [one.name for one in held_back(self.job, self.job.status, self.now)]
        found = {name: known[backoff.name_of(self.job, name)] for name in held}
        return {name: (one.not_before - self.now).total_seconds() for name, one in found.items()}

    @property
    def now(self) -> datetime:
        return at(self.second)

    def _there(self) -> list[PodBuilder]:
        held = held_back(self.job, self.job.status, self.now)
        return running(self.job, *(one.name for one in desired(self.job) if one not in held))

    def _ended(self, name: str, code: int | None) -> PodBuilder:
        made = pod(self.job, name).running(self.second - 1)
        return made.evicted(self.second) if code is None else made.exited(code, self.second)


def flaky(shape: dict[str, Any], name: str, times: int) -> Story:
    """A job one of whose tasks was killed so many times in a row, each time a second after its start."""
    story = Story(begun(job(**shape)), 10)
    for _ in range(times):
        story.second += 1
        story.end(**{name: 137})
        story.second += max(story.waits().values(), default=0)
        story.start()
    story.second += 1
    return story


def test_a_task_waits_longer_each_time_up_to_five_minutes() -> None:
    story, waits = Story(begun(job(**ALONE))), []
    for _ in range(9):
        story.second += 30
        story.end(worker_0=137)
        waits.append(story.waits().get("worker-0", 0))
        story.second += waits[-1]
        story.start()
    assert waits == [0, 10, 20, 40, 80, 160, 300, 300, 300]


@pytest.mark.parametrize(("quiet", "waits"), [(599, {"worker-0": 160}), (600, {})])
def test_ten_minutes_of_running_make_the_next_restart_immediate(quiet: float, waits: dict[str, float]) -> None:
    story = flaky(ALONE, "worker_0", 5)
    story.second += quiet - 1
    story.end(worker_0=137)
    assert story.waits() == waits


@pytest.mark.parametrize(
    ("ends", "waits"),
    [
        ({"ps_0": None}, {}),
        ({"ps_0": 137}, {}),
        ({"worker_1": None}, {}),
        ({"chief_0": 143}, {}),
        ({"worker_0": 137}, {"worker-0": 300}),
        ({"worker_0": None}, {"worker-0": 300}),
        ({"worker_0": 137, "ps_0": None}, {"worker-0": 300}),
        ({"worker_0": None, "ps_0": None}, {"worker-0": 300}),
        ({"worker_0": 137, "chief_0": 1}, {"worker-0": 300, "chief-0": 300}),
        ({"worker_0": None, "chief_0": 134}, {"worker-0": 300, "chief-0": 300}),
    ],
    ids=str,
)
def test_a_task_waits_for_its_own_restarts_and_for_what_it_died_of(
    ends: dict[str, int | None], waits: dict[str, float]
) -> None:
    story = flaky(ALONE, "worker_0", 6)
    story.end(**ends)
    assert story.waits() == waits


def test_the_loss_of_another_task_does_not_move_a_start_that_is_due(wording: Wording) -> None:
    story = flaky(ALONE, "worker_0", 5)
    story.end(worker_0=137)
    assert story.waits() == {"worker-0": 160}
    story.second += 100
    outcome = story.end(ps_0=None)
    assert (story.waits(), outcome.again_at) == ({"worker-0": 60}, at(story.second + 60))
    assert f"{at(story.second + 60):%H:%M:%S} UTC" in outcome.status.message
    wording(outcome.status.message)
    assert created_pods(see(story.job, [*running(story.job, "chief-0", "worker-1")], story.second)) == ["mnist-ps-0"]
    story.second += 60
    assert created_pods(see(story.job, running(story.job, "chief-0", "worker-1", "ps-0"), story.second)) == [
        "mnist-worker-0"
    ]


def test_each_of_two_flaky_tasks_has_a_streak_of_its_own() -> None:
    story = flaky(ALONE, "worker_0", 3)
    story.end(worker_1=137)
    story.second += 1
    story.start()
    story.end(worker_1=137)
    assert story.waits() == {"worker-1": 10}
    story.end(worker_0=137)
    assert story.waits() == {"worker-0": 40, "worker-1": 10}


def test_a_gang_waits_as_one_whoever_of_it_fails_and_its_evaluator_for_itself() -> None:
    story = flaky(TOGETHER, "worker_0", 2)
    story.end(evaluator_0=137)
    assert story.waits() == {}
    story.end(chief_0=137)
    assert story.waits() == {"chief-0": 20, "worker-0": 20}
    story.end(evaluator_0=137)
    assert story.waits() == {"chief-0": 20, "worker-0": 20, "evaluator-0": 10}


def test_a_member_that_is_added_meanwhile_waits_with_its_gang() -> None:
    story = flaky({"worker": 2}, "worker_0", 2)
    story.end(worker_0=137)
    spec = replace(story.job.spec.tf_replica_specs["Worker"], replicas=3)
    larger = replace(story.job, spec=replace(story.job.spec, tf_replica_specs={"Worker": spec}))
    assert {one.name for one in held_back(larger, larger.status, story.now)} == {"worker-0", "worker-1", "worker-2"}


def test_the_pods_of_a_batch_job_wait_each_for_itself() -> None:
    story = flaky({"worker": 3, "origin": BATCH, "policy": "Never"}, "worker_0", 3)
    story.end(worker_0=1, worker_1=1)
    assert story.waits() == {"worker-0": 40}


def test_a_consequence_waits_for_the_cause_that_is_held_back_and_is_no_restart_of_its_own() -> None:
    story = flaky(ALONE, "ps_0", 4)
    story.end(ps_0=137)
    story.second += 3
    chief = pod(story.job, "chief-0").running(story.second - 5).exited(1, story.second)
    outcome = see(story.job, [chief, *running(story.job, "worker-0", "worker-1")], story.second)
    restarts, story.job = story.job.status.restarts, after(story.job, outcome)
    assert (outcome.status.restarts, story.waits()) == (restarts, {"ps-0": 77, "chief-0": 77})
    story.second += 77
    story.start()
    story.second += 1
    story.end(chief_0=137)
    assert story.waits() == {}, "its first restart of its own"


@pytest.mark.parametrize(
    ("started", "ended", "excused"), [(5, 8, True), (5, 85, True), (5, 200, False), (81, 85, False)]
)
def test_who_was_started_while_a_peer_was_held_back_is_not_blamed(started: float, ended: float, excused: bool) -> None:
    """Though another restart has been recorded since, and it was not yet there when the peer was lost."""
    story = flaky(ALONE, "ps_0", 4)
    story.end(ps_0=137)
    lost = story.second
    story.second += 2
    story.end(chief_0=143)
    story.start()
    story.second = lost + ended
    chief = pod(story.job, "chief-0").running(lost + started).exited(1, story.second)
    others = ["worker-0", "worker-1", *(["ps-0"] if ended > 80 else [])]
    outcome = see(story.job, [chief, *running(story.job, *others)], story.second)
    assert (outcome.status.reason != "Settling") == excused, outcome.status.message
    if excused:
        assert [item.reason for item in outcome.events] == ["HeldBack", "TFJobRestarting"]


@pytest.mark.parametrize("name", ["evaluator-0", "chief-0"])
def test_an_absent_peer_excuses_no_evaluator_and_no_lack_of_memory(name: str) -> None:
    """The one would be started again without wait and end; the other fails the job the second time, as always."""
    story = flaky({**ALONE, "evaluator": 1}, "worker_0", 6)
    story.end(worker_0=137)
    story.second += 2
    made = pod(story.job, name).running(story.second - 1)
    if name == "chief-0":
        story.job = replace(story.job, status=replace(story.job.status, oom_killed=[name]))
        ended = made.oom(story.second)
    else:
        ended = made.exited(1, story.second)
    others = {"chief-0", "worker-1", "ps-0", "evaluator-0"} - {name}
    outcome = see(story.job, [ended, *running(story.job, *sorted(others))], story.second)
    assert (outcome.status.state, outcome.status.reason) == ("Restarting", "Settling")


def test_a_task_that_the_job_no_longer_has_holds_nobody_back() -> None:
    story = flaky(ALONE, "worker_1", 6)
    story.end(worker_1=137)
    assert story.waits() == {"worker-1": 300}
    story.job = replace(job(**{**ALONE, "worker": 1}), metadata=story.job.metadata, status=story.job.status)
    story.second += 20
    assert next_starts(story.job, story.job.status, story.now) == []
    story.end(chief_0=1)
    assert story.job.status.reason == "Settling"


def test_a_clock_that_is_set_back_holds_nobody_longer_than_the_longest_wait() -> None:
    story = Story(begun(job(**ALONE)), 86_400)
    story.end(worker_0=137)
    story.second += 1
    story.end(worker_0=137)
    assert story.waits() == {"worker-0": 10}
    story.second = 20
    assert story.waits() == {}
    story.end(worker_0=137)
    assert story.waits() == {"worker-0": 20}


def test_a_resumed_job_waits_for_nothing() -> None:
    story = flaky(ALONE, "worker_0", 5)
    story.end(worker_0=137)
    run_policy = replace(story.job.spec.run_policy, suspend=True)
    paused = replace(story.job, spec=replace(story.job.spec, run_policy=run_policy))
    paused = after(paused, see(paused, [], story.second))
    again = replace(paused, spec=story.job.spec)
    assert see(again, [], story.second).status.back_off == {}


def test_each_task_is_listed_and_one_that_was_quiet_is_not() -> None:
    story = Story(begun(job(worker=40, ps=1)))
    story.end(worker_39=137)
    story.second = 700
    story.end(**{f"worker_{index}": None for index in range(30)})
    expected = {f"worker-{index}": BackOff(restarts=1, not_before=at(700)) for index in range(30)}
    assert story.job.status.back_off == expected


def test_a_gang_is_listed_once() -> None:
    story = flaky(TOGETHER, "worker_0", 2)
    assert list(story.job.status.back_off) == ["gang"]
    story.end(chief_0=137)
    assert story.job.status.back_off == {"gang": BackOff(restarts=3, not_before=at(story.second + 20))}


def test_of_many_that_fail_one_after_the_other_none_is_forgotten() -> None:
    story = Story(begun(job(worker=60, ps=1)))
    for index in range(60):
        story.second += 1
        story.end(**{f"worker_{index}": 137})
    story.end(worker_0=137)
    assert story.waits() == {"worker-0": 10}


def test_a_back_off_is_read_as_it_is_written() -> None:
    known = TFJobStatus(back_off={"ps-0": BackOff(restarts=2, not_before=at(1))})
    written = msgspec.json.encode(known)
    assert written == b'{"backOff":{"ps-0":{"notBefore":"2026-01-02T03:04:06Z","restarts":2}}}'
    assert msgspec.json.decode(written, type=TFJobStatus) == known
