from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from support.golden import Wording
from tfjob.api.text import reader
from tfjob.api.text.reader import parse


def value(text: str | bytes) -> Any:
    parsed = parse(text)
    assert parsed.problems == []
    return parsed.documents[0].value


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", (1, 1)),
        ("# only a comment\n---\n", (1, 1)),
        ("- a\n- b\n", (1, 1)),
        ("word", (1, 1)),
        ("a: 1\nb:\n  c: 1\n  c: 2\n", (4, 3)),
        ("a:\n\t- b\n", (2, 1)),
        ("a:\n  b: 1\n\tc: 2\n", (3, 1)),
        ("a: 1\n<<<<<<< mine\nb: 1\n=======\nb: 2\n>>>>>>> theirs\n", (2, 1)),
        ("a: 1\n>>>>>>> theirs\n", (2, 1)),
        ("a: 1\n[...]\n b:\n  - c\n", (2, 1)),
        ("a: *nothing\n", (1, 4)),
        ("a: &a [*a]\n", (1, 8)),
        (b"a: x\nb: \xff\n", (2, 4)),
        ("a: x\x00\n", (1, 5)),
        ("a: \ud800\n", (1, 4)),
        pytest.param("[" * 10_000, (1, 102), id="deep list"),
        pytest.param("a: " + "{b: " * 5_000, (1, 404), id="deep mapping"),
        ("a: 'open\nb: 1\n", (3, 1)),
        ("a: [1, 2\nb: 3\n", (2, 2)),
        ("a: {b: 1\n", (2, 1)),
        ("a: b: c\n", (1, 5)),
        ("a:\n   b: 1\n  c: 2\n", (3, 3)),
        ("a: @x\n", (1, 4)),
        ("a: {{ name }}\n", (1, 5)),
        ("a: !Ref x\n", (1, 4)),
        ("a: !!int x\n", (1, 4)),
        ("data:\n  on: x\n", (2, 3)),
        ("a:\n  <<: 3\n", (2, 3)),
        ('a:\n  b: "open\nc: 1\nd: ["e", "f"]\n', (2, 6)),
        ("a: 1\nkind TFJob\nb: 2\n", (2, 1)),
        ("a:\n  b:1\n  c: 2\n", (3, 4)),
        ("a:\n  -b: 1\n    c: 2\n", (3, 6)),
        ("a: [b, ${c}]\n", (1, 9)),
        ("a: [b,, c]\n", (1, 7)),
        ("a:\n - b: 1\n    c: 2\n", (3, 6)),
    ],
)
def test_each_fault_of_the_text_is_one_clear_problem_at_its_place(
    text: str | bytes, place: tuple[int, int], wording: Wording
) -> None:
    (problem,) = parse(text).problems
    assert (problem.line, problem.column) == place
    wording(problem)


def test_a_bomb_of_aliases_is_refused_before_it_is_built(wording: Wording) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    problems = parse("\n".join(lines)).problems
    assert [problem.line for problem in problems] == [6]
    assert "200000" in problems[0].message
    wording(*problems)


@pytest.mark.parametrize(
    ("word", "meaning"),
    [
        ("yes", True),
        ("Off", False),
        ("y", True),
        ("null", None),
        ("~", None),
        ("", None),
        ("12", 12),
        ("-1_000", -1000),
        ("0x1F", 31),
        ("010", 8),
        ("0o10", 8),
        ("0b11", 3),
        ("09", 9.0),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("+.5", 0.5),
        ("2017-10-20", "2017-10-20"),
        ("2017-10-20T22:27:38Z", "2017-10-20T22:27:38Z"),
        ("12:30:45", "12:30:45"),
        ("1.2.3", "1.2.3"),
        ("500m", "500m"),
        ("-x", "-x"),
        ("'12'", "12"),
        ('"yes"', "yes"),
        ("!!str 12", "12"),
        ("!!float 3", 3),
    ],
)
def test_words_mean_what_they_mean_to_kubernetes(word: str, meaning: Any) -> None:
    found = value(f"a: {word}\n")["a"]
    assert found == meaning
    assert type(found) is type(meaning)


def test_every_node_knows_its_line_and_column_and_a_missing_one_its_parents() -> None:
    document = parse("a: 1\nb:\n  - c: x\n    d: [1, 2]\n", "f.yaml").documents[0]
    assert document.position("a") == (1, 1)
    assert document.position("b[0]") == (3, 5)
    assert document.position("b[0].d") == (4, 5)
    assert document.position(("b", 0, "d", 1)) == (4, 12)
    assert document.position("b[0].missing.deeper") == (3, 5)
    assert document.position("") == (1, 1)


def test_positions_inside_an_alias_are_those_of_its_anchor() -> None:
    document = parse("base: &b\n  x: 1\nuse: *b\nmerged:\n  <<: *b\n  y2: 2\n").documents[0]
    assert document.position("use") == (3, 1)
    assert document.position("use.x") == (2, 3)
    assert document.position("merged.x") == (2, 3)


def test_merge_keys_add_what_is_not_given_and_the_first_of_several_wins() -> None:
    text = "a: &a {x: 1, z: 1}\nb: &b {x: 2, w: 2}\nc:\n  z: 3\n  <<: [*a, *b]\n"
    assert value(text)["c"] == {"z": 3, "x": 1, "w": 2}


def test_several_documents_are_read_and_empty_ones_skipped() -> None:
    parsed = parse("---\n---\na: 1\n---\n# nothing\n---\nb: 2\n...\n")
    assert [document.value for document in parsed.documents] == [{"a": 1}, {"b": 2}]
    assert parsed.documents[1].position("b") == (7, 1)


def test_the_documents_before_a_fault_are_kept() -> None:
    parsed = parse("a: 1\n---\nb: [\n")
    assert [document.value for document in parsed.documents] == [{"a": 1}]
    assert len(parsed.problems) == 1


@pytest.mark.parametrize("data", [b"\xef\xbb\xbfa: 1\n", "\ufeffa: 1\n", "a: 1\n".encode("utf-16"), b"a: 1\r\n"])
def test_byte_order_marks_and_line_ends_of_any_editor_are_read(data: bytes | str) -> None:
    assert value(data) == {"a": 1}


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_mark_is_told_to_be_saved_as_utf_8(encoding: str, wording: Wording) -> None:
    (problem,) = parse("a: 1\n".encode(encoding), "x").problems
    assert (problem.line, problem.column) == (1, 1)
    assert "UTF-16" in problem.message
    wording(problem)


def test_json_with_tabs_and_surrogate_pairs_is_read_with_positions() -> None:
    text = '{\n\t"a": "\\ud83d\\ude00 \\\\ud83d",\n\t"b": [1e3, null, "x\\ty"]\n}\n'
    document = parse(text).documents[0]
    assert document.value == json.loads(text)
    assert document.position("b") == (3, 2)


def test_numbers_as_keys_are_strings() -> None:
    assert value("1: a\n2.5: b\n") == {"1": "a", "2.5": "b"}


def test_the_slower_parser_gives_the_same(monkeypatch: pytest.MonkeyPatch, wording: Wording) -> None:
    monkeypatch.setattr(reader, "_Loader", yaml.SafeLoader)
    document = parse("a: &x\n  b: [1, yes]\nc: *x\n").documents[0]
    assert document.value == {"a": {"b": [1, True]}, "c": {"b": [1, True]}}
    assert document.position("a.b") == (2, 3)
    (problem,) = parse("a:\n\t- b\n").problems
    assert (problem.line, problem.column) == (2, 1)
    wording(problem)
