from __future__ import annotations

import re

import pytest

from tfjob.serve.metrics import MOST_SERIES, OTHER, Metrics, resident_memory

LINE = re.compile(r"^(?P<name>[a-z_:]+)(\{(?P<labels>.*)\})? (?P<value>[0-9.e+-]+)$", re.IGNORECASE)


def values(metrics: Metrics, name: str) -> dict[str, float]:
    """Return the values of one metric by their labels."""
    found = {}
    for line in metrics.page().splitlines():
        match = LINE.match(line)
        if match and match["name"] == name:
            found[match["labels"]] = float(match["value"])
    return found


def test_requests_are_counted_by_model_and_status() -> None:
    metrics = Metrics()
    metrics.request("m", "OK", "Predict", "GRPC", 0.001)
    metrics.request("m", "OK", "predict", "REST", 0.001)
    metrics.request("m", "NOT_FOUND", "predict", "REST", 0.001)
    assert values(metrics, ":tensorflow:serving:request_count") == {
        'model_name="m",status="NOT_FOUND"': 1,
        'model_name="m",status="OK"': 2,
    }
    assert values(metrics, ":tensorflow:serving:request_latency_count") == {
        'model_name="m",API="Predict",entrypoint="GRPC"': 1,
        'model_name="m",API="predict",entrypoint="REST"': 1,
    }


def test_the_buckets_of_a_latency_are_those_of_tensorflow_serving() -> None:
    metrics = Metrics()
    for seconds in (1e-6, 10e-6, 18.1e-6, 1e6):
        metrics.request("m", "OK", "Predict", "GRPC", seconds)
    found = values(metrics, ":tensorflow:serving:request_latency_bucket")
    bounds = {re.findall('le="([^"]+)"', labels)[0]: count for labels, count in found.items()}
    assert len(bounds) == 34
    assert list(bounds)[:4] == ["10", "18", "32.4", "58.32"]
    assert [bounds[bound] for bound in ("10", "18", "32.4", "58.32", "+Inf")] == [2, 2, 3, 3, 4]
    (total,) = values(metrics, ":tensorflow:serving:request_latency_sum").values()
    assert total == pytest.approx(1e12 + 29.1)


def test_every_count_is_on_the_page() -> None:
    metrics = Metrics()
    metrics.runtime("m", "Predict", 0.5)
    metrics.examples("m", 32)
    metrics.queued(0.25)
    metrics.batch("m", 8)
    metrics.load("/m/1", "OK", 2.0)
    metrics.warmup("/m/1", "OK", 0.1)
    page = metrics.page().splitlines()
    for line in (
        "# TYPE :tensorflow:serving:request_example_count_total counter",
        "# TYPE :tensorflow:serving:request_example_counts histogram",
        ':tensorflow:serving:runtime_latency_sum{model_name="m",API="Predict",runtime="TF2"} 500000',
        ':tensorflow:serving:request_example_counts_bucket{model="m",le="32"} 1',
        ':tensorflow:serving:request_example_count_total{model="m"} 32',
        ":tensorflow:serving:batching_session:queuing_latency_sum{} 250000",
        ':tfjob_serving_batch_size_bucket{model_name="m",le="4"} 0'.removeprefix(":"),
        ':tensorflow:cc:saved_model:load_attempt_count{model_path="/m/1",status="success"} 1',
        ':tensorflow:cc:saved_model:load_latency{model_path="/m/1"} 2000000',
        ':tensorflow:serving:model_warmup_latency_count{model_path="/m/1",status="OK"} 1',
    ):
        assert line in page


def test_every_line_has_the_form_that_prometheus_reads() -> None:
    metrics = Metrics()
    metrics.request('a"b\\c\nd', "OK", "Predict", "GRPC", 0.001)
    metrics.gauge("resident_memory_bytes", (), resident_memory)
    lines = metrics.page().splitlines()
    assert all(line.startswith("# TYPE ") or LINE.match(line) for line in lines)
    assert r':tensorflow:serving:request_count{model_name="a\"b\\c\nd",status="OK"} 1' in lines
    (memory,) = values(metrics, "tfjob_serving_resident_memory_bytes").values()
    assert memory > 1_000_000


def test_gauges_are_read_for_each_page() -> None:
    metrics = Metrics()
    sizes = {"m": 1.0}
    metrics.gauge("size", ("model_name",), lambda: [((name,), size) for name, size in sizes.items()])
    assert values(metrics, "tfjob_serving_size") == {'model_name="m"': 1}
    sizes["m"] = 2
    assert values(metrics, "tfjob_serving_size") == {'model_name="m"': 2}


def test_the_queue_has_a_length() -> None:
    metrics = Metrics()
    for change in (1, 1, -1):
        metrics.waiting("m", change)
    assert values(metrics, "tfjob_serving_queue_length") == {'model_name="m"': 1}
    assert "# TYPE tfjob_serving_queue_length gauge" in metrics.page()


def test_names_that_clients_choose_do_not_fill_the_memory() -> None:
    metrics = Metrics()
    for number in range(MOST_SERIES + 5):
        metrics.request(f"m{number}", "NOT_FOUND", "predict", "REST", 0.001)
    found = values(metrics, ":tensorflow:serving:request_count")
    assert len(found) == MOST_SERIES + 1
    assert found[f'model_name="{OTHER}",status="{OTHER}"'] == 5
