from __future__ import annotations

from fractions import Fraction

import pytest

from tfjob.api.quantity import parse, whole


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("500m", 0.5),
        ("1.5", 1.5),
        ("1Gi", 2**30),
        ("1.5Gi", 3 * 2**29),
        ("100M", 100_000_000),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1E", 10**18),
        ("12e-1", Fraction(12, 10)),
        ("2k", 2000),
        ("3n", Fraction(3, 10**9)),
        (".5", 0.5),
        ("5.", 5),
        ("-1", -1),
        ("+1Ki", 1024),
        (2, 2),
        (0.25, 0.25),
    ],
)
def test_a_quantity_is_its_exact_amount(text: str | float, amount: Fraction) -> None:
    assert parse(text) == amount


def test_bytes_round_up() -> None:
    assert whole("1500m") == 2


def test_a_boolean_is_no_quantity() -> None:
    with pytest.raises(ValueError, match="True is no quantity"):
        parse(True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2GB", "did you mean 2Gi?"),
        ("512mib", "did you mean 512Mi?"),
        ("2 gi", "did you mean 2Gi?"),
        ("lots", "is no quantity"),
        ("", "is no quantity"),
        ("1.2.3", "is no quantity"),
        ("1e9999", "is no quantity"),
    ],
)
def test_what_is_no_quantity_is_refused_with_the_likely_one(text: str, said: str) -> None:
    with pytest.raises(ValueError, match="is no quantity") as error:
        parse(text)
    assert said in str(error.value)
