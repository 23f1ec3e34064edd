"""Whatever stands in a manifest, loading it gives problems and never an exception."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tfjob.api.manifest.loader import load
from tfjob.api.problems import Path as NodePath

HERE = Path(__file__).parent
ODD: list[Any] = [None, -1, 1.5, True, "", "x", [], {}, [None], [[]], {"name": None}, 10**30]
TEXTS = [path.read_bytes() for folder in ("manifests", "broken") for path in sorted((HERE / folder).iterdir())]


def nodes(value: Any, path: NodePath = ()) -> Iterator[NodePath]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in children:
        yield (*path, key)
        yield from nodes(item, (*path, key))


def replaced(value: Any, path: NodePath, item: Any) -> Any:
    whole = copy.deepcopy(value)
    node = whole
    for part in path[:-1]:
        node = node[part]
    node[path[-1]] = item
    return whole


@pytest.mark.parametrize("name", ["v1-single.json", "v1beta1-master.yaml", "v1alpha1-stored.yaml", "batch-job.yaml"])
def test_any_node_may_be_replaced_by_anything(name: str) -> None:
    value = yaml.safe_load((HERE / "manifests" / name).read_text().replace("\t", " ").replace("\\ud83d\\ude00", ""))
    for path in nodes(value):
        for odd in ODD:
            manifest = load(json.dumps(replaced(value, path, odd), default=str), name)
            assert all(problem.line for problem in manifest.problems)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(TEXTS), st.integers(0, 2000), st.integers(0, 20), st.binary(max_size=6))
def test_any_bytes_may_be_replaced_by_any_others(text: bytes, start: int, length: int, put: bytes) -> None:
    load(text[:start] + put + text[start + length :], "x.yaml", {"name": "x"})


@given(st.binary(max_size=60))
def test_any_bytes_may_be_loaded(data: bytes) -> None:
    assert load(data).problems
