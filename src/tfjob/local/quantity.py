"""Kubernetes resource quantities ("500m", "1.5Gi", "2e3") as exact numbers."""

from __future__ import annotations

import math
import re
from fractions import Fraction

_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))([numkMGTPE]|[KMGTPE]i|[eE][+-]?\d{1,3})?")

_SCALE = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    **{suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", start=1)},
}


def parse(text: str | float) -> Fraction:
    """The number that a quantity stands for; ValueError when it is none."""
    if isinstance(text, bool):
        raise ValueError(f"{text} is not a quantity")
    match = _QUANTITY.fullmatch(str(text).strip())
    if match is None:
        raise ValueError(f"{str(text)!r} is not a quantity such as 500m, 2 or 1.5Gi")
    number, suffix = Fraction(match[1]), match[2] or ""
    if suffix in _SCALE:
        return number * _SCALE[suffix]
    return number * Fraction(10) ** int(suffix[1:])


def whole(text: str | float) -> int:
    """The quantity rounded up to a whole number, as Kubernetes rounds bytes."""
    return math.ceil(parse(text))
