"""What an unquoted YAML word means: the rules of the YAML library that Kubernetes uses, without dates and base 60."""

from __future__ import annotations

import re

Scalar = str | int | float | bool | None

_WORDS: dict[str, bool | None] = {
    **{word: True for name in ("y", "yes", "on", "true") for word in (name, name.title(), name.upper())},
    **{word: False for name in ("n", "no", "off", "false") for word in (name, name.title(), name.upper())},
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
}
_INTEGER = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")


def resolve(word: str) -> Scalar:
    """The value of an unquoted word."""
    if word in _WORDS:
        return _WORDS[word]
    if word[0] not in "+-.0123456789":
        return word
    digits = word.replace("_", "")
    if _INTEGER.fullmatch(digits):
        return _integer(digits)
    if _FLOAT.fullmatch(digits):
        return float(digits)
    return word


def _integer(digits: str) -> int:
    if re.match(r"[-+]?0[0-7]", digits):
        return int(digits, 8)
    return int(digits, 0)
