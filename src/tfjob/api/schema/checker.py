"""Check a plain value against named definitions: types, required fields and unknown fields.

A type is a word: `string`, `int`, `number`, `bool`, `quantity`, `int-or-string`, `any`, the name of a definition, `[T]`
for a list, or `{T}` for a map with any keys. A `!` at the end marks a required field.

`pod_schema.json` has the definitions of pod templates and of objects other than jobs; `tools/pod_schema.py` generates
it from the Kubernetes client library.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from tfjob.api.problems import Path, Problem, path_text
from tfjob.api.suggest import nearest
from tfjob.api.text.reader import described

Definition = Mapping[str, str]
LENIENT = frozenset({"PodTemplateSpec", "Volume", "VolumeMount"})
"""In these definitions, an unknown field is a warning and is kept: a newer Kubernetes may know it."""
_SCALARS: dict[str, tuple[tuple[type, ...], str]] = {
    "string": ((str,), "a string"),
    "int": ((int,), "an integer"),
    "number": ((int, float), "a number"),
    "bool": ((bool,), "true or false"),
    "quantity": ((int, float, str), "a quantity such as 500m or 2Gi"),
    "int-or-string": ((int, str), "an integer or a name"),
}
_PYTHON_TYPES: dict[Any, str] = {str: "string", int: "int", bool: "bool", datetime: "time", Any: "any"}
_Ancestors = tuple[tuple[str, Path], ...]
"""The definitions from the root to a value, each with its path."""
_MISSING: Any = object()
UNKNOWN_FIELD, EMPTY = "unknown field", "is empty"
QUOTE = "put it in quotes"
_KEY_WITHOUT_SPACE = re.compile(r"[A-Za-z][\w.-]*:(?=\S)(?!//)")
"""The key of a `name:mnist`, which YAML reads as one string."""
_MOST_LEVELS = 5
MOST_SUGGESTIONS = 20
"""A suggestion takes milliseconds, and a value with more unknown fields belongs to another schema anyway."""


@dataclass(frozen=True)
class Schema:
    """Definitions by name, and hints for unknown fields by (definition, field).

    The fields of definitions in `folded` are case-insensitive, and `aliases` are other spellings of them.
    """

    definitions: Mapping[str, Definition]
    folded: frozenset[str] = frozenset()
    aliases: Mapping[str, str] = field(default_factory=dict)
    hints: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def check(self, value: Any, kind: str, filled: Collection[Path] = ()) -> Checked:
        """Check `value` as a `kind`; a string at a path in `filled` may represent a number or boolean."""
        check = _Check(self, filled)
        cleaned = check.value(value, kind, (), ())
        return Checked(cleaned, check.problems, check.renamed)

    def own_field(self, definition: str, name: str) -> str:
        """Return the definition's spelling of a field; empty if it has no such field."""
        fields = self.definitions[definition]
        if name in fields:
            return name
        if definition not in self.folded:
            return ""
        wanted = self.aliases.get(name.lower(), name).lower()
        return next((known for known in fields if known.lower() == wanted), "")


@dataclass(frozen=True)
class Checked:
    """The value without wrong or null parts, with every field in the definition's spelling.

    `renamed` holds the user's spelling of fields that are spelled differently, by their path in `value`.
    """

    value: Any
    problems: list[Problem]
    renamed: Mapping[Path, str]


class _Check:
    def __init__(self, schema: Schema, filled: Collection[Path]) -> None:
        self.schema = schema
        self.filled = filled
        self.problems: list[Problem] = []
        self.renamed: dict[Path, str] = {}
        self.unknowns = 0

    def report(self, path: Path, message: str, hint: str = "", warning: bool = False) -> None:
        self.problems.append(Problem(path_text(self.written(path)), message, hint, warning=warning))

    def written(self, path: Path) -> Path:
        return tuple(self.renamed.get(path[: index + 1], part) for index, part in enumerate(path))

    def value(self, value: Any, kind: str, path: Path, ancestors: _Ancestors) -> Any:
        if kind == "any":
            return value
        if kind.startswith("["):
            return self.items(value, kind, path, ancestors)
        if kind.startswith("{"):
            return self.entries(value, kind, path, ancestors)
        if kind in self.schema.definitions:
            return self.fields(value, path, (*ancestors, (kind, path)))
        return self.scalar(value, kind, path)

    def items(self, value: Any, kind: str, path: Path, ancestors: _Ancestors) -> list[Any]:
        if not isinstance(value, list):
            self.report(path, f"must be a list, not {described(value)}", _list_hint(path, kind, value))
            return []
        cleaned = []
        for index, item in enumerate(value):
            judged = self.value(item, kind[1:-1], (*path, index), ancestors)
            # Keep wrong items, so that the indexes of the others stay correct.
            cleaned.append(str(item) if judged is _MISSING else judged)
        return cleaned

    def entries(self, value: Any, kind: str, path: Path, ancestors: _Ancestors) -> dict[str, Any]:
        if not isinstance(value, dict):
            self.report(path, f"must be a mapping, not {described(value)}", _mapping_hint(value))
            return {}
        inner = kind[1:-1]
        cleaned: dict[str, Any] = {}
        for key, item in value.items():
            if item is None and inner in self.schema.definitions:
                self.report((*path, key), EMPTY)
                cleaned[key] = {}
            elif item is not None:
                cleaned[key] = self.value(item, inner, (*path, key), ancestors)
        return {key: item for key, item in cleaned.items() if item is not _MISSING}

    def fields(self, value: Any, path: Path, ancestors: _Ancestors) -> dict[str, Any]:
        if not isinstance(value, dict):
            self.report(path, f"must be a mapping, not {described(value)}", _mapping_hint(value))
            return {}
        kind = ancestors[-1][0]
        definition = self.schema.definitions[kind]
        cleaned: dict[str, Any] = {}
        for key, item in value.items():
            name = self.schema.own_field(kind, key)
            if not name:
                if self.report_unknown(key, ancestors):
                    cleaned[key] = item
                continue
            if name != key:
                self.renamed[(*path, name)] = key
            if item is None:
                continue
            if name in cleaned:
                self.report((*path, name), f"is the same field as {name}, which is also set", "remove one of them")
                continue
            judged = self.value(item, definition[name].removesuffix("!"), (*path, name), ancestors)
            if judged is not _MISSING:
                cleaned[name] = judged
        for name, written in definition.items():
            if written.endswith("!") and value.get(name) is None:
                self.report((*path, name), "is missing")
        return cleaned

    def report_unknown(self, key: str, ancestors: _Ancestors) -> bool:
        """Report an unknown field; return whether it is kept."""
        self.unknowns += 1
        kind, path = ancestors[-1]
        is_kept = any(ancestor in LENIENT for ancestor, _ in ancestors)
        hint = self.schema.hints.get((kind, key), "")
        if not hint and self.unknowns <= MOST_SUGGESTIONS:
            hint = self.suggestion(key, ancestors)
        self.report((*path, key), UNKNOWN_FIELD, hint or ("it is kept unchanged" if is_kept else ""), is_kept)
        return is_kept

    def suggestion(self, key: str, ancestors: _Ancestors) -> str:
        """Suggest the place where a field of this name belongs, or the most similar field of this definition."""
        here = nearest(key, self.schema.definitions[ancestors[-1][0]])
        is_same = here.lower() == key.replace("_", "").lower()
        if not is_same and (home := self.home(key, ancestors)):
            return f"move it to {path_text(self.written(home))}"
        return f"did you mean {here}?" if here else ""

    def home(self, key: str, ancestors: _Ancestors) -> Path | None:
        """Return the path of a field of this name, in or below the nearest definition that has one."""
        for kind, path in reversed(ancestors):
            level, seen = [(kind, path)], {kind}
            for _ in range(_MOST_LEVELS):
                for name, where in level:
                    if key in self.schema.definitions[name]:
                        return (*where, key)
                level = [child for name, where in level for child in self.children(name, where) if child[0] not in seen]
                seen |= {name for name, _ in level}
        return None

    def children(self, kind: str, path: Path) -> list[tuple[str, Path]]:
        found = []
        # Prefer the fields that most people mean.
        common = ("spec", "template", "containers", "volumes", "resources")
        definition = self.schema.definitions[kind]
        for name in sorted(definition, key=lambda name: (name not in common, name)):
            written = definition[name].removesuffix("!")
            inner = written.strip("[]{}")
            if inner in self.schema.definitions:
                extra: Path = (0,) if written.startswith("[") else ()
                if written.startswith("{"):
                    extra = ("<type>" if inner == "ReplicaSpec" else "<name>",)
                found.append((inner, (*path, name, *extra)))
        return found

    def scalar(self, value: Any, kind: str, path: Path) -> Any:
        if isinstance(value, str) and self.filled and self.written(path) in self.filled:
            value = _read(value, kind)
        fitting, wanted = _SCALARS[kind]
        if isinstance(value, fitting) and (kind == "bool" or not isinstance(value, bool)):
            return value
        self.report(path, f"must be {wanted}, not {described(value)}", _scalar_hint(value, kind))
        return _MISSING


def _read(text: str, kind: str) -> Any:
    """Convert the text of a parameter to the required number or boolean, if it is one."""
    if kind in ("int", "int-or-string") and re.fullmatch(r"[-+]?[0-9]+", text):
        return int(text)
    if kind == "bool" and text in ("true", "false"):
        return text == "true"
    return text


def _scalar_hint(value: Any, kind: str) -> str:
    if kind == "string" and isinstance(value, bool | int | float):
        return QUOTE
    if isinstance(value, str) and not isinstance(_read(value.lower(), kind), str):
        return f"remove the quotes: {value.lower()}"
    if isinstance(value, list) and len(value) == 1:
        return "remove the '-' before it"
    return ""


def _list_hint(path: Path, kind: str, value: Any) -> str:
    if kind == "[EnvVar]" and isinstance(value, dict) and value:
        return f'write each variable as "- name: {next(iter(value))}" with "value: ..." below it'
    if kind == "[string]" and isinstance(value, str):
        import shlex  # only needed for a wrong command

        try:
            words = shlex.split(value)
        except ValueError:
            words = [value]
        return f"write {json.dumps(words, ensure_ascii=False)}"
    if isinstance(value, dict):
        return "start each item with '- '"
    return ""


def _mapping_hint(value: Any) -> str:
    if isinstance(value, list):
        return "remove the '- ' before its fields"
    if value is None:
        return "remove the empty item"
    if isinstance(value, str) and (key := _KEY_WITHOUT_SPACE.match(value)):
        return f"write a space after '{key[0]}'"
    return ""


def definitions_of(struct: type[msgspec.Struct]) -> dict[str, Definition]:
    """Return the definitions of a type and of all types in it, by the name of the type."""
    found: dict[str, Definition] = {}
    hints, fields = get_type_hints(struct), msgspec.structs.fields(struct)
    words = {field.encode_name: _type_word(hints[field.name], found) + "!" * field.required for field in fields}
    return {**found, struct.__name__: words}


def _type_word(hint: Any, found: dict[str, Definition]) -> str:
    arguments = [argument for argument in get_args(hint) if argument is not type(None)]
    if get_origin(hint) is list:
        return f"[{_type_word(arguments[0], found)}]"
    if get_origin(hint) is dict:
        return f"{{{_type_word(arguments[1], found)}}}"
    if arguments:
        return _type_word(arguments[0], found)
    if hint not in _PYTHON_TYPES:
        found |= definitions_of(hint)
    return _PYTHON_TYPES.get(hint) or str(hint.__name__)


@cache
def pod_definitions() -> dict[str, Definition]:
    """Return the definitions of `pod_schema.json` by name."""
    from importlib import resources  # slow to import, and often not needed

    data = resources.files("tfjob.api.schema").joinpath("pod_schema.json").read_bytes()
    definitions: dict[str, Definition] = msgspec.json.decode(data)["definitions"]
    return definitions
