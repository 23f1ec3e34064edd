"""Manifests with something wrong in them, by the number of a seed: the same number gives the same manifest."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
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
    10**30,
    1e308,
    "",
    "x",
    " ",
    "\x00",
    "\u202eabc",
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
BIG = 5_000_000


def tree(seed: int, sound: Sequence[Any] = SOUND) -> dict[str, Any]:
    """A job with one to four nodes that are odd, absent, doubled or somewhere else."""
    dice = random.Random(seed)
    value: dict[str, Any] = copy.deepcopy(dice.choice(sound))
    for _ in range(dice.choice((1, 1, 2, 4))):
        places = list(_places(value))
        if not places:
            break
        dice.choice(_CHANGES)(dice, *dice.choice(places))
    return value


def text(seed: int, sound: Sequence[Any] = SOUND) -> bytes:
    """The bytes of a manifest with something wrong: in its tree, in its YAML, or in its bytes."""
    dice = random.Random(seed)
    kind = dice.choice(("tree", "tree", "json", "bytes", "lines", "keys", "deep", "bomb", "encoding"))
    value = tree(seed, sound)
    written = yaml.safe_dump(value, allow_unicode=True, sort_keys=False)
    match kind:
        case "json":
            return json.dumps(value).encode()
        case "bytes":
            data = bytearray(written.encode())
            for _ in range(dice.randint(1, 8)):
                data[dice.randrange(len(data))] = dice.randrange(256)
            return bytes(data)
        case "lines":
            lines = written.splitlines()
            at = dice.randrange(len(lines))
            lines[at : at + dice.randint(0, 2)] = [dice.choice(("  - - x", "\t", "a: b: c", "--- !x", "? [", "key:"))]
            return "\n".join(lines).encode()
        case "keys":
            lines = written.splitlines()
            at = dice.randrange(len(lines))
            return "\n".join([*lines[: at + 1], *lines[at : at + 1], *lines[at + 1 :]]).encode()
        case "deep":
            depth = dice.choice((50, 500, 20_000))
            opening, closing = dice.choice((("[", "]"), ("{a: ", "}")))
            return (written + f"\nextra: {opening * depth}1{closing * depth}\n").encode()
        case "bomb":
            return (_bomb(dice.randint(3, 30)) + written).encode()
        case "encoding":
            return written.encode(dice.choice(("utf-16", "utf-32", "latin-1")), "replace")
    return written.encode()


def huge() -> bytes:
    """A sound manifest of five megabytes."""
    value = copy.deepcopy(SOUND[0])
    value.setdefault("metadata", {})["annotations"] = {f"example.com/a{n}": "x" * 1000 for n in range(BIG // 1020)}
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


_CHANGES: list[Callable[[random.Random, Any, Any], None]] = [_replace, _replace, _remove, _double, _wrap]
