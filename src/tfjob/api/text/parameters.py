"""`${name}` in a manifest, replaced by the values given on the command line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tfjob.api.problems import Path


def substitute(value: Any, parameters: Mapping[str, str]) -> tuple[Any, set[str]]:
    """Replace `${name}` in the strings of `value` for the given names only; also return the names used."""
    used: set[str] = set()
    if not parameters:
        return value, used
    pattern = _pattern(parameters)

    def filled(match: re.Match[str]) -> str:
        used.add(match[1])
        return parameters[match[1]]

    def replaced(node: Any) -> Any:
        if isinstance(node, str):
            return pattern.sub(filled, node)
        if isinstance(node, list):
            return [replaced(item) for item in node]
        if isinstance(node, dict):
            return {key: replaced(item) for key, item in node.items()}
        return node

    return replaced(value), used


def whole_values(value: Any, parameters: Mapping[str, str], path: Path = ()) -> set[Path]:
    """Return the paths of strings that are exactly one `${name}`: they may become numbers or booleans."""
    if not parameters:
        return set()
    if isinstance(value, str):
        return {path} if _pattern(parameters).fullmatch(value) else set()
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return {found for key, item in children for found in whole_values(item, parameters, (*path, key))}


def _pattern(parameters: Mapping[str, str]) -> re.Pattern[str]:
    return re.compile(r"\$\{(" + "|".join(re.escape(name) for name in parameters) + r")\}")
