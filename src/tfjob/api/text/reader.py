"""Parse the text of a manifest into documents that know the line and column of every value.

Unquoted words have the same meaning as in the YAML library of Kubernetes: there are no dates and no numbers to base 60.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import yaml

from tfjob.api.problems import Path, Problem, path_parts, path_text

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MAX_DEPTH = 100
MAX_NODES = 200_000
"""Far more than any real manifest has, but few enough that some lines of aliases cannot fill the memory."""
_ELISION = re.compile(r"^\[\.\.\.\]\s*$", re.MULTILINE)
_CONFLICT = re.compile(r"^(<{7}|>{7})( .*)?$", re.MULTILINE)
_UNPRINTABLE = re.compile("[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SURROGATES = re.compile(r"(?<!\\)((?:\\\\)*)(\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2})", re.IGNORECASE)
_TAGS = {"int": (int,), "float": (int, float), "bool": (bool,), "null": (type(None),)}
_WORDS: dict[type, str] = {bool: "boolean", int: "integer", float: "number", str: "string"}
Place = tuple[int, int]
"""Line and column, from 1."""
Scalar = str | int | float | bool | None
_UNQUOTED_WORDS: dict[str, bool | None] = {
    **{word: True for name in ("y", "yes", "on", "true") for word in (name, name.title(), name.upper())},
    **{word: False for name in ("n", "no", "off", "false") for word in (name, name.title(), name.upper())},
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
}
_INTEGER = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)")
_OCTAL = re.compile(r"[-+]?0[0-7]")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")


@dataclass(frozen=True, slots=True)
class Mark:
    """The position of a node, the marks of its children by key or index, and the text of a scalar in the file."""

    line: int
    column: int
    children: dict[str | int, Mark] = field(default_factory=dict)
    text: str = ""


@dataclass(frozen=True, slots=True)
class Document:
    """One mapping of a manifest."""

    value: dict[str, Any]
    source: str
    mark: Mark

    def position(self, path: str | Sequence[str | int]) -> Place:
        """Return the position of the node at `path`, or of its nearest parent that exists."""
        mark = self.mark_at(path)
        return mark.line, mark.column

    def mark_at(self, path: str | Sequence[str | int]) -> Mark:
        """Return the mark of the node at `path`, or of its nearest parent that exists."""
        mark = self.mark
        for part in path_parts(path) if isinstance(path, str) else path:
            if part not in mark.children:
                break
            mark = mark.children[part]
        return mark


@dataclass(frozen=True, slots=True)
class Parsed:
    """The documents that could be read, and the problems of the text."""

    documents: list[Document]
    problems: list[Problem]


def parse(data: bytes | str, source: str = "", *, as_text: bool = False) -> Parsed:
    """Read YAML or JSON; faults become problems. With `as_text`, every unquoted word except null is a string."""
    reader = _Reader(source, as_text)
    try:
        text = reader.decoded(data)
        reader.refuse_unreadable(text)
        reader.read(text)
    except _Stop:
        pass
    return Parsed(reader.finished, reader.problems)


class _Stop(Exception):
    """Reading cannot continue; the problem is recorded."""


@dataclass
class _Reader:
    source: str
    as_text: bool = False
    problems: list[Problem] = field(default_factory=list)
    finished: list[Document] = field(default_factory=list)

    def report(self, place: Place, message: str, hint: str = "", path: Path = ()) -> None:
        self.problems.append(Problem(path_text(path), message, hint, *place, self.source))

    def stop(self, place: Place, message: str, hint: str = "") -> _Stop:
        self.report(place, message, hint)
        return _Stop()

    def decoded(self, data: bytes | str) -> str:
        if isinstance(data, str):
            return data.removeprefix("\ufeff")
        try:
            if data.startswith((b"\xff\xfe", b"\xfe\xff")):
                return data.decode("utf-16")
            if b"\0" in data[:4]:
                # YAML cannot start with a zero byte, but UTF-16 without a byte order mark does.
                raise self.stop((1, 1), "the file must be UTF-8, but looks like UTF-16", "save it as UTF-8")
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            before = data[: error.start].decode("utf-8", "replace")
            said = f"byte 0x{data[error.start]:02x} is not valid UTF-8"
            raise self.stop(_place_of(before, len(before)), said, "save the file as UTF-8") from None

    def refuse_unreadable(self, text: str) -> None:
        if match := _CONFLICT.search(text):
            hint = "keep one side and delete the marker lines"
            raise self.stop(_place_of(text, match.start()), "the file contains git's conflict markers", hint)
        if match := _ELISION.search(text):
            hint = "replace it with these lines, or copy the rest of the file into a complete manifest"
            said = "the manifest is incomplete: '[...]' marks lines that were left out"
            raise self.stop(_place_of(text, match.start()), said, hint)
        if match := _UNPRINTABLE.search(text):
            said = f"the character U+{ord(match.group()):04X} is not allowed in YAML"
            raise self.stop(_place_of(text, match.start()), said, "remove it")

    def read(self, text: str) -> None:
        events = self.events(_as_yaml(text))
        empty = True
        for event in events:
            if not isinstance(event, yaml.DocumentStartEvent):
                continue
            value, mark = _Builder(events, self).node(next(events), (), 0)
            if isinstance(value, dict):
                self.finished.append(Document(value, self.source, mark))
            elif value is not None:
                wanted = "a document must be a mapping with apiVersion, kind, metadata and spec"
                self.report((mark.line, mark.column), f"{wanted}, not {described(value)}")
            empty = empty and value is None
        if empty:
            self.report((1, 1), "the file is empty or contains only comments")

    def events(self, text: str) -> Iterator[Any]:
        try:
            yield from yaml.parse(text, Loader=_Loader)
        except yaml.MarkedYAMLError as error:
            mark: Any = error.problem_mark or error.context_mark
            if _NO_COLON in (error.problem or ""):
                mark = error.context_mark or mark
            line, column = (mark.line, mark.column) if mark else (0, 0)
            if opened := _runaway_quote(text, line):
                said = f"the quoted string that starts on line {opened[0]} ends only on line {line + 1}"
                raise self.stop(opened, said, "close its quote") from None
            raise self.stop((line + 1, column + 1), *explain_yaml_error(error, text, line, column)) from None
        except yaml.YAMLError as error:
            raise self.stop((1, 1), f"invalid YAML: {error}") from None


class _Builder:
    """Builds the values and marks of one document from the events of the parser."""

    def __init__(self, events: Iterator[Any], reader: _Reader) -> None:
        self.events = events
        self.reader = reader
        self.anchors: dict[str, tuple[Any, Mark, int]] = {}
        """By name: the value, its mark, and its number of nodes."""
        self.open: set[str] = set()
        self.nodes = 0

    def node(self, event: Any, path: Path, depth: int) -> tuple[Any, Mark]:
        place = _place(event)
        if depth > MAX_DEPTH:
            raise self.reader.stop(place, f"the value is nested more than {MAX_DEPTH} levels deep")
        if isinstance(event, yaml.AliasEvent):
            return self.alias(event.anchor, place)
        if event.anchor:
            self.open.add(event.anchor)
        before = self.nodes
        self.count(1, place)
        mark = Mark(*place, text=getattr(event, "value", ""))
        value: Any
        if isinstance(event, yaml.ScalarEvent):
            value = self.scalar(event, path, place)
        elif isinstance(event, yaml.SequenceStartEvent):
            value = self.sequence(mark, path, depth)
        else:
            value = self.mapping(mark, path, depth)
        if event.anchor:
            self.open.discard(event.anchor)
            self.anchors[event.anchor] = (value, mark, self.nodes - before)
        return value, mark

    def count(self, nodes: int, place: Place) -> None:
        self.nodes += nodes
        if self.nodes > MAX_NODES:
            said = f"the document has more than {MAX_NODES} values once its aliases are expanded"
            raise self.reader.stop(place, said)

    def alias(self, name: str | None, place: Place) -> tuple[Any, Mark]:
        if name in self.open:
            raise self.reader.stop(place, f"the alias *{name} is inside its own anchor &{name}")
        if name is None or name not in self.anchors:
            known = ", ".join(f"&{anchor}" for anchor in self.anchors)
            hint = f"use one of {known}" if known else f"define it above with &{name}, or quote the value"
            raise self.reader.stop(place, f"there is no anchor &{name} above the alias *{name}", hint)
        value, mark, size = self.anchors[name]
        self.count(size, place)
        return value, Mark(*place, mark.children, mark.text)

    def sequence(self, mark: Mark, path: Path, depth: int) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            index = len(items)
            value, mark.children[index] = self.node(event, (*path, index), depth + 1)
            items.append(value)
        return items

    def mapping(self, mark: Mark, path: Path, depth: int) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        merged: list[tuple[Any, Mark]] = []
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            key = self.key(event, path)
            value, child = self.node(next(self.events), (*path, key), depth + 1)
            own = Mark(*_place(event), child.children, child.text)
            if key == "<<" and isinstance(event, yaml.ScalarEvent) and event.implicit[0]:
                merged.append((value, own))
                continue
            if key in fields:
                said = f"{key} is defined twice, first on line {mark.children[key].line}"
                self.reader.report(_place(event), said, "remove one of them", (*path, key))
            fields[key], mark.children[key] = value, own
        for value, where in merged:
            self.merge(fields, mark, value, where, path)
        return fields

    def key(self, event: Any, path: Path) -> str:
        place = _place(event)
        if isinstance(event, yaml.AliasEvent):
            value, _ = self.alias(event.anchor, place)
            if isinstance(value, str):
                return value
        if not isinstance(event, yaml.ScalarEvent):
            said = "a key must be a string, not a list or a mapping"
            raise self.reader.stop(place, said, "put placeholders such as {{ name }} in quotes")
        if event.anchor:
            self.anchors[event.anchor] = (event.value, Mark(*place), 1)
        self.count(1, place)
        if event.implicit[0] and isinstance(meaning := resolve(event.value), bool | None):
            key = f"the key {event.value}" if event.value else "an empty key"
            said = f"{key} means {json.dumps(meaning)} in YAML"
            self.reader.report(place, said, f'put it in quotes: "{event.value}"', path)
        return str(event.value)

    def merge(self, fields: dict[str, Any], mark: Mark, value: Any, where: Mark, path: Path) -> None:
        is_list = isinstance(value, list)
        items = value if is_list else [value]
        if not items or not all(isinstance(item, dict) for item in items):
            said = "the value of << must be an alias of a mapping, or a list of such aliases"
            self.reader.report((where.line, where.column), said, path=(*path, "<<"))
            return
        for index, item in enumerate(items):
            item_mark = where.children[index] if is_list else where
            for key, inherited in item.items():
                if key not in fields:
                    fields[key] = inherited
                    mark.children[key] = item_mark.children[key]

    def scalar(self, event: Any, path: Path, place: Place) -> Scalar:
        text = str(event.value)
        if event.tag in (None, "!"):
            word = resolve(text) if event.implicit[0] else text
            return text if self.reader.as_text and word is not None else word
        tag = event.tag.removeprefix("tag:yaml.org,2002:")
        if tag in ("str", "timestamp"):
            return text
        value = resolve(text)
        if isinstance(value, _TAGS.get(tag, ())):
            return value
        unknown = f"unknown tag {tag if tag.startswith('!') else '!' + tag}"
        self.reader.report(place, f"{json.dumps(text)} is not a valid {tag}" if tag in _TAGS else unknown, path=path)
        return text


def _as_yaml(text: str) -> str:
    """Turn JSON into YAML, which does not allow tabs between tokens nor surrogate pairs."""
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text
    return _SURROGATES.sub(lambda pair: pair[1] + str(json.loads(f'"{pair[2]}"')), text.replace("\t", " "))


def _place(event: Any) -> Place:
    return event.start_mark.line + 1, event.start_mark.column + 1


def _place_of(text: str, offset: int) -> Place:
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def described(value: Any) -> str:
    """Describe a value: `a list`, `the string "two"`, `the integer 3`."""
    if isinstance(value, str | int | float):
        shown = f"{value[:37]}..." if isinstance(value, str) and len(value) > 40 else value
        return f"the {_WORDS[type(value)]} {json.dumps(shown, ensure_ascii=False)}"
    return "null" if value is None else "a list" if isinstance(value, list) else "a mapping"


def resolve(word: str) -> Scalar:
    if word in _UNQUOTED_WORDS:
        return _UNQUOTED_WORDS[word]
    if word[0] not in "+-.0123456789":
        return word
    digits = word.replace("_", "")
    if _INTEGER.fullmatch(digits):
        return int(digits, 8 if _OCTAL.match(digits) else 0)
    return float(digits) if _FLOAT.fullmatch(digits) else word


_NO_SPACE = re.compile(r"\s*(?:- )?(?:[\w./-]+(?=:[^\s/]))?(:|-)(?=[^\s-])")
"""A line with a key or a dash that is not followed by a space, such as `replicas:1` or `-name: x`."""
_FIRST_KEY = re.compile(r" *(?:- +)*[\w./-]+")
_VALUE = re.compile(r" *(?:- +)*[\w./-]+:\s+[^\s#]")
_INDENT = re.compile(r"( *)(?:- +)*(?=[^\s#])")
_OUT_OF_BLOCK = "did not find expected key|expected <block end>"
_NO_COLON = "could not find expected ':'"
_YAML_ERRORS = {
    "mapping values are not allowed": "the line has a second ': ' or is indented too far"
    "; quote the value, or fix the indentation",
    "unexpected end": "the quote that opens on line {opened} is never closed; close it",
    _OUT_OF_BLOCK: "this line does not fit the block that starts on line {opened}"
    "; check the indentation, quotes and brackets above it",
    _NO_COLON: "a colon is missing after the key; write 'key: value', or check the indentation",
    "expected ',' or ']'": "the bracket that opens on line {opened} is not closed with ']'; check commas and brackets",
    "expected ',' or '}'": "the bracket that opens on line {opened} is not closed with '}}'; check commas and brackets",
    "'-' indicator|sequence entries are not allowed": "a list item ('- ') is not allowed here; check the indentation",
    "expected node content": "a value is missing here, or a bracket is not closed; check commas and brackets",
    "cannot start any token": "a value cannot start with {here!r}; put it in quotes",
    "undefined tag handle": "a value cannot start with '!'; put it in quotes",
}
"""Patterns of the parser's messages, and the message and hint to report instead."""


def _runaway_quote(text: str, line: int) -> Place | None:
    """Return the start of a quoted string that begins above `line` and ends on it."""
    with suppress(yaml.YAMLError):
        for token in yaml.scan(text, Loader=_Loader):
            if getattr(token, "style", None) in ("'", '"') and token.start_mark.line < line == token.end_mark.line:
                return _place(token)
    return None


def _wrong_indent(spaces: int, above: Sequence[str]) -> str:
    """Return what is wrong with the indent of the line below these lines; empty if it is that of an open block."""
    lines: dict[int, int] = {}
    for number in range(len(above), 0, -1):
        dashes = _INDENT.match(above[number - 1])
        if dashes is not None and (not lines or len(dashes[1]) < min(lines)):
            lines |= {len(dashes[0]): number, len(dashes[1]): number}
    if spaces in lines:
        return ""
    near = [*sorted(one for one in lines if one < spaces)[-1:], *sorted(one for one in lines if one > spaces)[:1]]
    others = " and ".join(f"line {lines[one]} by {one}" for one in near)
    return f"this line is indented by {spaces} space{'' if spaces == 1 else 's'}, but {others}"


def explain_yaml_error(error: yaml.MarkedYAMLError, text: str, line: int, column: int) -> tuple[str, str]:
    lines = text.splitlines()
    here = lines[line] if line < len(lines) else ""
    if "\t" in here[: len(here) - len(here.lstrip())] or here[column : column + 1] == "\t":
        return "YAML does not allow a tab here", "use spaces"
    said = error.problem or error.context or "it cannot be parsed"
    opened: Any = error.context_mark or error.problem_mark
    spaces = len(here) - len(here.lstrip())
    if opened and spaces == opened.column and "expected key" in said:
        return "the line does not have the form 'key: value'", "check its quotes"
    above = lines[line - 1] if line else ""
    suspect, number = (here, line + 1) if _NO_COLON in said else (above, line)
    if ("mapping values" in said or _NO_COLON in said) and (cramped := _NO_SPACE.match(suspect)):
        return f"line {number} has no space after '{cramped[1]}'", f"write '{cramped[1]} ' in '{suspect.strip()[:40]}'"
    if "mapping values" in said and _FIRST_KEY.fullmatch(here[:column]) and _VALUE.match(above):
        columns = " and ".join(str(found.end() + 1) for one in (above, here) if (found := _INDENT.match(one)))
        return f"the keys of lines {line} and {line + 1} start at different columns ({columns})", "align them"
    if "expected ',' or ']'" in said and "{" in here[: column + 1]:
        return "'{' is not allowed in an unquoted value between brackets", 'put the value in quotes, such as "${steps}"'
    if re.search(_OUT_OF_BLOCK, said) and (wrong := _wrong_indent(spaces, lines[:line])):
        return wrong, "indent it like one of them"
    for pattern, explanation in _YAML_ERRORS.items():
        if re.search(pattern, said) and opened:
            message, _, hint = explanation.partition("; ")
            known = {"opened": opened.line + 1, "here": here[column : column + 1]}
            return message.format(**known), hint.format(**known)
    return f"invalid YAML: {said}", ""
