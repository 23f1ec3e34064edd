from __future__ import annotations

from tfjob.api.manifest.loader import substitute

VALUE = {
    "image": "${registry}/x:${tag}",
    "env": [{"name": "A", "value": "$(B) ${other} $tag $${tag}"}],
    "${tag}": 3,
    "count": "${tag}",
}


def test_only_the_given_names_are_replaced_and_only_in_values() -> None:
    filled, used, _ = substitute(VALUE, {"tag": "7", "unused": "x"})
    assert filled == {
        "image": "${registry}/x:7",
        "env": [{"name": "A", "value": "$(B) ${other} $tag $7"}],
        "${tag}": 3,
        "count": "7",
    }
    assert used == {"tag"}
    assert VALUE["count"] == "${tag}"


def test_a_value_that_holds_a_placeholder_is_not_replaced_again() -> None:
    assert substitute("${a}", {"a": "${b}", "b": "x"}) == ("${b}", {"a"}, {()})


def test_without_parameters_nothing_is_touched() -> None:
    assert substitute(VALUE, {}) == (VALUE, set(), set())


def test_a_value_that_is_one_placeholder_is_known_by_its_path() -> None:
    assert substitute(VALUE, {"tag": "7", "registry": "r"})[2] == {("count",)}
