"""Quantities of Kubernetes: `500m`, `1.5`, `2Gi`, `100M`, `1e3`."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from fractions import Fraction

_QUANTITY = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:([KMGTPE]i|[numkMGTPE])|[eE]([+-]?[0-9]{1,3}))?")
_BINARY = {f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", 1)}
_WHOLE = {letter: 1000**power for power, letter in enumerate("kMGTPE", 1)}
_PARTS = {letter: Fraction(1, 1000**power) for power, letter in enumerate("mun", 1)}
_UNITS = {**_PARTS, **_WHOLE, **_BINARY}


def parse(value: str | float) -> Fraction:
    """Return the exact amount. Raises ValueError with a message for users."""
    match = None if isinstance(value, bool) else _QUANTITY.fullmatch(str(value).strip())
    if not match:
        raise ValueError(
            f"{value!r} is not a valid quantity; examples are 500m, 1.5, 2Gi and 100M{_likely(str(value))}"
        )
    digits, suffix, exponent = match.groups()
    unit = Fraction(10) ** int(exponent) if exponent else _UNITS.get(suffix, 1)
    return Fraction(digits) * unit


def total(values: Sequence[str | float]) -> str:
    """Return the sum as Kubernetes writes it: with the largest suffix that leaves an integer, binary like the first."""
    amount = sum(map(parse, values), Fraction())
    if amount.denominator > 1:
        letter = next((letter for letter in "mu" if (amount / _PARTS[letter]).denominator == 1), "n")
        return f"{math.ceil(amount / _PARTS[letter])}{letter}"
    units = _BINARY if str(values[0]).endswith("i") else _WHOLE
    suffix = next((suffix for suffix in reversed(units) if amount and amount % units[suffix] == 0), "")
    return f"{amount / units[suffix] if suffix else amount}{suffix}"


def whole(value: str | float) -> int:
    """Return the amount rounded up to an integer, as Kubernetes rounds bytes."""
    return math.ceil(parse(value))


def amount_or_zero(value: str | float) -> Fraction:
    """Return the exact amount; 0 if the quantity is invalid, which validation reports."""
    try:
        return parse(value)
    except ValueError:
        return Fraction()


def _likely(text: str) -> str:
    """Return a suggestion for quantities such as `2GB`, `2gi`, `512MiB` or `1 Gi`; empty if unclear."""
    match = re.fullmatch(r"([0-9.]+)\s*([kmgtpe])(i?)b?", text.strip(), re.IGNORECASE)
    if not match:
        return ""
    number, letter, binary = match.groups()
    suffix = f"{letter.upper()}i" if binary else letter.upper().replace("K", "k")
    return f" (did you mean {number}{suffix}?)"
