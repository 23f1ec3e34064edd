"""Rates and latencies from the metrics pages of TensorFlow Serving."""

from __future__ import annotations

import pytest

from tfjob.serve.rates import Counts, Rates, rates, read

PAGE = """\
# TYPE :tensorflow:serving:request_count counter
:tensorflow:serving:request_count{model_name="mnist",status="OK"} 7
:tensorflow:serving:request_count{model_name="mnist",status="NOT_FOUND"} 1
:tensorflow:serving:request_count{model_name="other",status="OK"} 100
# TYPE :tensorflow:serving:request_latency histogram
:tensorflow:serving:request_latency_bucket{model_name="mnist",API="Predict",entrypoint="GRPC",le="10"} 0
:tensorflow:serving:request_latency_bucket{model_name="mnist",API="Predict",entrypoint="GRPC",le="18"} 4
:tensorflow:serving:request_latency_bucket{model_name="mnist",API="Predict",entrypoint="GRPC",le="+Inf"} 4
:tensorflow:serving:request_latency_bucket{model_name="mnist",API="predict",entrypoint="REST",le="18"} 1
:tensorflow:serving:request_latency_bucket{model_name="mnist",API="predict",entrypoint="REST",le="+Inf"} 3
:tensorflow:serving:request_latency_sum{model_name="mnist",API="Predict",entrypoint="GRPC"} 1e2
:tensorflow:serving:request_count{model_name="a \\"b\\" \\\\",status="OK"} 2
process_start_time_seconds 1.0
"""


def test_the_series_of_a_model_are_added_up() -> None:
    found = read(PAGE, "mnist")
    assert found.requests == 8
    assert found.latencies == {10: 0, 18: 5, float("inf"): 7}


def test_the_name_of_a_model_may_need_escapes() -> None:
    assert read(PAGE, 'a "b" \\').requests == 2
    assert read(PAGE, "nothing") == Counts()


INFINITE = float("inf")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (Counts(), Counts(), Rates(0, None, None)),
        (Counts(10, {100: 10}), Counts(30, {100: 30}), Rates(10, 50, 99)),
        (Counts(10, {100: 10}), Counts(6, {100: 6}), Rates(3, 50, 99)),
        (Counts(), Counts(4, {100: 2, 200: 4}), Rates(2, 100, 198)),
        (Counts(), Counts(4, {100: 2, INFINITE: 4}), Rates(2, 100, 100)),
        (Counts(), Counts(4, {INFINITE: 4}), Rates(2, 0, 0)),
        (Counts(5, {100: 0}), Counts(9, {100: 0}), Rates(2, None, None)),
    ],
)
def test_rates_are_those_between_two_readings(before: Counts, after: Counts, expected: Rates) -> None:
    assert rates(before, after, 2) == expected


def test_rates_are_short_for_people() -> None:
    assert str(Rates(12.4, 1234, 250_000)) == "12 requests/s · p50 1.2 ms · p99 250 ms"
    assert str(Rates(0, None, None)) == "0 requests/s"
