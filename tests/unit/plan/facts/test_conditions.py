from __future__ import annotations

from support.plan.builders import at
from tfjob.api.types import Condition
from tfjob.plan.facts.conditions import FAILED, RESTARTING, RUNNING, SUCCEEDED, SUSPENDED, is_true, with_condition


def given(*names: str) -> list[Condition]:
    """Conditions that were set one after the other."""
    listed: list[Condition] = []
    for second, name in enumerate(names):
        listed = with_condition(listed, name, at(second), name)
    return listed


def shown(listed: list[Condition]) -> list[str]:
    return [("" if one.status == "True" else "-") + one.type for one in listed]


def test_running_and_restarting_replace_each_other_and_the_latest_is_last() -> None:
    assert shown(given("Created", RUNNING)) == ["Created", "Running"]
    assert shown(given("Created", RUNNING, RESTARTING)) == ["Created", "Restarting"]
    assert shown(given("Created", RUNNING, RESTARTING, RUNNING)) == ["Created", "Running"]


def test_an_end_turns_running_to_false_and_keeps_it() -> None:
    assert shown(given("Created", RUNNING, SUCCEEDED)) == ["Created", "-Running", "Succeeded"]
    assert shown(given("Created", RUNNING, FAILED)) == ["Created", "-Running", "Failed"]


def test_setting_what_stands_changes_nothing_not_even_the_message() -> None:
    before = given("Created", RUNNING)
    assert with_condition(before, RUNNING, at(9), "another message") == before


def test_the_reasons_are_those_of_v1_9() -> None:
    assert [one.reason for one in given("Created", RUNNING, FAILED)] == ["TFJobCreated", "TFJobRunning", "TFJobFailed"]
    assert given(SUSPENDED)[0].reason == "TFJobSuspended"


def test_the_transition_time_changes_with_the_status_alone() -> None:
    before = given("Created", RUNNING)
    (_, other_reason) = with_condition(before, RUNNING, at(9), "", reason="Other")
    assert (other_reason.last_update_time, other_reason.last_transition_time) == (at(9), at(1))
    (_, other_status) = with_condition(before, RUNNING, at(9), "", status="False")
    assert other_status.last_transition_time == at(9)


def test_a_false_condition_does_not_hold() -> None:
    listed = with_condition(given(SUSPENDED), SUSPENDED, at(3), "", status="False")
    assert is_true(given(SUSPENDED), SUSPENDED)
    assert not is_true(listed, SUSPENDED)
    assert not is_true([], SUSPENDED)
