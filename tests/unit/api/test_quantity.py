from __future__ import annotations

from fractions import Fraction

import pytest

from support.golden import Wording
from tfjob.api.quantity import parse, total, whole


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


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (["500m", "500m"], "1"),
        (["500m", 1], "1500m"),
        (["1Gi"] * 3, "3Gi"),
        (["512Mi"] * 3, "1536Mi"),
        (["1Gi", "1"], "1073741825"),
        (["1000", "1e3"], "2k"),
        ([2, 1.5], "3500m"),
        (["1u", "1n"], "1001n"),
        (["0"], "0"),
        (["0.1n"], "1n"),
    ],
)
def test_a_sum_is_written_with_the_largest_suffix_that_leaves_a_whole_number(
    values: list[str | float], text: str
) -> None:
    assert total(values) == text


def test_bytes_round_up() -> None:
    assert whole("1500m") == 2


def test_a_boolean_is_no_quantity() -> None:
    with pytest.raises(ValueError, match="True"):
        parse(True)


@pytest.mark.parametrize(
    ("text", "likely"),
    [
        ("2GB", "2G"),
        ("1gb", "1G"),
        ("64KB", "64k"),
        ("512mib", "512Mi"),
        ("2 gi", "2Gi"),
        ("lots", "lots"),
        ("", ""),
        ("1.2.3", "1.2.3"),
        ("1e9999", "1e9999"),
    ],
)
def test_what_is_no_quantity_is_refused_with_the_likely_one(text: str, likely: str, wording: Wording) -> None:
    with pytest.raises(ValueError, match="quantity") as error:
        parse(text)
    assert likely in str(error.value)
    wording(error.value)
