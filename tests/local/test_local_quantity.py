"""Quantities are read exactly as Kubernetes reads them."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tfjob.local import quantity


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("500m", Fraction(1, 2)),
        (2, 2),
        (0.5, Fraction(1, 2)),
        ("1.5Gi", 3 * 512 * 1024**2),
        ("1k", 1000),
        ("1E", 10**18),
        ("1e3", 1000),
        ("1E-3", Fraction(1, 1000)),
        (".5", Fraction(1, 2)),
        ("100n", Fraction(1, 10**7)),
    ],
)
def test_a_quantity_is_an_exact_number(text: str | float, expected: Fraction) -> None:
    assert quantity.parse(text) == expected


@pytest.mark.parametrize("text", ["", "1 Gi", "1gi", "1K", "Gi", "1.2.3", "-", True])
def test_anything_else_is_no_quantity(text: str) -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        quantity.parse(text)


def test_bytes_round_up() -> None:
    assert quantity.whole("1500m") == 2
