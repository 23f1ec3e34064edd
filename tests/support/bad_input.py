"""Manifests with something wrong in them, by the number of a seed: the same number gives the same manifest."""

from __future__ import annotations

import copy
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent / "data"
DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
SOUND: list[dict[str, Any]] = [
    json.loads(json.dumps(document, default=str))  # times are texts
    for folder in ("api/manifests", "documents/manifests")
    for file in sorted((HERE / folder).glob("*.yaml"))
    for document in yaml.safe_load_all(file.read_text())
    if isinstance(document, dict) and document.get("kind") in ("TFJob", "TfJob", "Job")
]
ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    1.5,
    2**31,
    2**63,
    10**30,
    10**400,
    1e308,
    "1e1000000000",
    "9" * 5000,
    "",
    "x",
    " ",
    "\x00",
    "\u202eabc",
    "@surrogate@",
    "ä" * 300,
    "😀",
    "../../etc/passwd",
    "$(TF_CONFIG)",
    "`id`",
    "x" * 5000,
    "1Gi",
    "NaN",
    [],
    {},
    [None],
    [[]],
    {"": None},
    {"name": None},
    {"name": "x", "value": {}},
    ["a", 1, None, {}],
]
NAMES = ["Größe", "名前", "a\u0301", "\u202eabc", "\uff37orker", "worker\u200b", "😀", "ß" * 70, "a/b", ".."]
BIG = 5_000_000
ONE_IN = 500
"""Files of five megabytes are drawn less often than the others, because they take so much longer."""
TEXTS = ("tree", "tree", "json", "bytes", "lines", "keys", "deep", "bomb", "encoding")
DRAWN: Counter[str] = Counter()
"""What was drawn so far, by its name."""


def tree(seed: int, sound: Sequence[Any] = SOUND) -> dict[str, Any]:
    """A job with one to four nodes that are odd, absent, doubled or somewhere else."""
    dice = random.Random(seed)
    value: dict[str, Any] = copy.deepcopy(dice.choice(sound))
    for _ in range(dice.choice((1, 1, 2, 4))):
        places = list(_places(value))
        if not places:
            break
        change = dice.choice(_CHANGES)
        change(dice, *dice.choice(places))
        DRAWN[change.__name__] += 1
    return value


def written(value: Any) -> bytes:
    """A tree as JSON, with what is nested in it."""
    return _marked(json.dumps(value), quotes='"').encode()


def text(seed: int, sound: Sequence[Any] = SOUND) -> bytes:
    """The bytes of a manifest with something wrong: in its tree, in its YAML, or in its bytes."""
    dice = random.Random(seed)
    kind = "huge" if dice.randrange(ONE_IN) == 0 else dice.choice(TEXTS)
    DRAWN[kind] += 1
    value = tree(seed, sound)
    lines = _marked(yaml.dump(value, Dumper=DUMPER, allow_unicode=True, sort_keys=False)).splitlines()
    whole = "\n".join(lines)
    at = dice.randrange(len(lines))
    match kind:
        case "huge":
            return huge(value)
        case "json":
            return written(value)
        case "bytes":
            data = bytearray(whole.encode())
            for _ in range(dice.randint(1, 8)):
                data[dice.randrange(len(data))] = dice.randrange(256)
            return bytes(data)
        case "lines":
            lines[at : at + dice.randint(0, 2)] = [dice.choice(("  - - x", "\t", "a: b: c", "--- !x", "? [", "key:"))]
            return "\n".join(lines).encode()
        case "keys":
            keys = [number for number, line in enumerate(lines) if _KEY.match(line)]
            at = dice.choice(keys or [at])
            return "\n".join([*lines[: at + 1], *lines[at : at + 1], *lines[at + 1 :]]).encode()
        case "deep":
            depth = dice.choice((50, 500, 20_000))
            opening, closing = dice.choice((("[", "]"), ("{a: ", "}")))
            return f"{whole}\nextra: {opening * depth}1{closing * depth}\n".encode()
        case "bomb":
            return (_bomb(dice.randint(3, 30)) + whole).encode()
        case "encoding":
            return whole.encode(dice.choice(("utf-16", "utf-32", "latin-1")), "replace")
    return whole.encode()


def huge(value: Any = None) -> bytes:
    """A manifest, a sound one unless another is given, with five megabytes of annotations."""
    value = copy.deepcopy(SOUND[0] if value is None else value)
    annotations = {f"example.com/a{n}": "x" * 1000 for n in range(BIG // 1020)}
    value["metadata"] = {"name": "x", "annotations": annotations}
    return json.dumps(value, indent=1).encode()


def _bomb(levels: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join(lines) + "\n"


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a tree: the mapping or list, and the key."""
    children = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
    for key, item in children:
        yield value, key
        yield from _places(item)


def _replace(dice: random.Random, parent: Any, key: Any) -> None:
    parent[key] = copy.deepcopy(dice.choice(ODD))


def _remove(dice: random.Random, parent: Any, key: Any) -> None:
    del parent[key]


def _double(dice: random.Random, parent: Any, key: Any) -> None:
    if isinstance(parent, list):
        parent.extend([copy.deepcopy(parent[key])] * dice.choice((1, 3, 200)))
    else:
        parent[f"{key}{dice.choice(('s', 'X', ' ', '.'))}"] = copy.deepcopy(parent[key])


def _wrap(dice: random.Random, parent: Any, key: Any) -> None:
    parent[key] = dice.choice(([parent[key]], {"x": parent[key]}, str(parent[key])))


def _rename(dice: random.Random, parent: Any, key: Any) -> None:
    """A name that is none: of a field, a type or a label, or as the value of what stands there."""
    name = dice.choice(NAMES)
    if isinstance(parent, dict) and dice.random() < 0.5:
        parent[name] = parent.pop(key)
    else:
        parent[key] = name


def _nest(dice: random.Random, parent: Any, key: Any) -> None:
    """Deeper than a stack; what stands for it is exchanged when the tree is written."""
    parent[key] = f"@nested {dice.choice((30, 300, 900, 5000))}@"


def _marked(text: str, quotes: str = "\"'") -> str:
    """A tree that is written, with what cannot stand in one: half a character, and what is deeper than a stack.

    In JSON single quotes are of a value that was made a text: what stands there is part of it.
    """
    text = re.sub(f"[{quotes}]@surrogate@[{quotes}]", r'"a\\ud800b"', text)
    return re.sub(rf"[{quotes}]@nested (\d+)@[{quotes}]", _nesting, text)


def _nesting(match: re.Match[str]) -> str:
    depth = int(match[1])
    return "[" * depth + "]" * depth


_KEY = re.compile(r"[ -]*[A-Za-z]\w*:")
_CHANGES: list[Callable[[random.Random, Any, Any], None]] = [
    *(_replace, _replace, _replace, _replace),
    *(_remove, _remove, _double, _double, _wrap, _wrap, _rename, _nest),
]
CHANGES = {change.__name__ for change in _CHANGES}
