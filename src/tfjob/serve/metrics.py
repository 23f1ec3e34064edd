"""What the server counts, and the page that Prometheus reads, with TensorFlow Serving's names.

All durations are in seconds; the page has microseconds. `status` is the name of a code, such as OK. `prometheus_client`
cannot write this page: it would rename `request_count` to `request_count_total`.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

TFS = ":tensorflow:serving:"
LOADER = ":tensorflow:cc:saved_model:"
OURS = "tfjob_serving_"
MICROSECONDS = tuple(10 * 1.8**power for power in range(33))
ROWS = tuple(float(2**power) for power in range(15))
MOST_SERIES = 1000
"""The limit of label sets per metric, because clients choose model names; further sets count as `OTHER`."""
OTHER = "(other)"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels = tuple[str, ...]
Gauge = Callable[[], Iterable[tuple[Labels, float]]]
"""Returns the current values with the values of their labels."""


class _Counter:
    def __init__(self, name: str, *labels: str, kind: str = "counter") -> None:
        self.kind = kind
        self.name = name
        self.labels = labels
        self.values: dict[Labels, float] = {}

    def add(self, labels: Labels, amount: float = 1) -> None:
        if labels not in self.values and len(self.values) >= MOST_SERIES:
            labels = (OTHER,) * len(labels)
        self.values[labels] = self.values.get(labels, 0) + amount

    def lines(self) -> Iterable[str]:
        for labels, value in sorted(self.values.items()):
            yield _line(self.name, self.labels, labels, value)


class _Histogram:
    kind = "histogram"

    def __init__(self, name: str, *labels: str, bounds: Sequence[float] = MICROSECONDS) -> None:
        self.name = name
        self.labels = labels
        self.bounds = bounds
        self.buckets: dict[Labels, list[int]] = {}
        self.sums: dict[Labels, float] = {}

    def add(self, labels: Labels, value: float) -> None:
        if labels not in self.buckets and len(self.buckets) >= MOST_SERIES:
            labels = (OTHER,) * len(labels)
        buckets = self.buckets.setdefault(labels, [0] * (len(self.bounds) + 1))
        buckets[bisect_left(self.bounds, value)] += 1
        self.sums[labels] = self.sums.get(labels, 0.0) + value

    def lines(self) -> Iterable[str]:
        for labels, buckets in sorted(self.buckets.items()):
            count = 0
            for bound, amount in zip([*(f"{bound:g}" for bound in self.bounds), "+Inf"], buckets, strict=True):
                count += amount
                yield _line(f"{self.name}_bucket", (*self.labels, "le"), (*labels, bound), count)
            yield _line(f"{self.name}_sum", self.labels, labels, self.sums[labels])
            yield _line(f"{self.name}_count", self.labels, labels, count)


class Metrics:
    """The counters of a server. Every thread may use them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._gauges: dict[str, tuple[Labels, Gauge]] = {}
        self._requests = _Counter(TFS + "request_count", "model_name", "status")
        self._latency = _Histogram(TFS + "request_latency", "model_name", "API", "entrypoint")
        self._runtime = _Histogram(TFS + "runtime_latency", "model_name", "API", "runtime")
        self._example_counts = _Histogram(TFS + "request_example_counts", "model", bounds=ROWS)
        self._example_total = _Counter(TFS + "request_example_count_total", "model")
        self._warmup = _Histogram(TFS + "model_warmup_latency", "model_path", "status")
        self._queuing = _Histogram(TFS + "batching_session:queuing_latency")
        self._load_attempts = _Counter(LOADER + "load_attempt_count", "model_path", "status")
        self._load_latency = _Counter(LOADER + "load_latency", "model_path")
        self._queue = _Counter(OURS + "queue_length", "model_name", kind="gauge")
        self._batches = _Histogram(OURS + "batch_size", "model_name", bounds=ROWS)

    def request(self, model: str, status: str, api: str, entrypoint: str, seconds: float) -> None:
        """Count a request that was answered; both servers call this. The latency is that of successful requests."""
        with self._lock:
            self._requests.add((model, status))
            if status == "OK":
                self._latency.add((model, api, entrypoint), seconds * 1e6)

    def runtime(self, model: str, api: str, seconds: float) -> None:
        """Count the duration of one run of the engine."""
        with self._lock:
            self._runtime.add((model, api, "TF2"), seconds * 1e6)

    def examples(self, model: str, count: int) -> None:
        """Count the rows of a request to Classify, Regress or Predict."""
        with self._lock:
            self._example_counts.add((model,), count)
            self._example_total.add((model,), count)

    def queued(self, seconds: float) -> None:
        """Count how long a request waited for its run."""
        with self._lock:
            self._queuing.add((), seconds * 1e6)

    def waiting(self, model: str, change: int) -> None:
        """Change the number of requests that wait for a run."""
        with self._lock:
            self._queue.add((model,), change)

    def batch(self, model: str, rows: int) -> None:
        """Count the rows of one run."""
        with self._lock:
            self._batches.add((model,), rows)

    def load(self, path: str, status: str, seconds: float) -> None:
        """Count an attempt to load a version."""
        with self._lock:
            self._load_attempts.add((path, "success" if status == "OK" else "fail"))
            self._load_latency.add((path,), seconds * 1e6)

    def warmup(self, path: str, status: str, seconds: float) -> None:
        """Count a warm-up."""
        with self._lock:
            self._warmup.add((path, status), seconds * 1e6)

    def gauge(self, name: str, labels: Labels, read: Gauge) -> None:
        """Add a value that is read for each page, under a name with the prefix of this project."""
        self._gauges[OURS + name] = labels, read

    def page(self) -> str:
        """Return the page in Prometheus' text format."""
        lines: list[str] = []
        with self._lock:
            for family in vars(self).values():
                if isinstance(family, _Counter | _Histogram):
                    lines += [f"# TYPE {family.name} {family.kind}", *family.lines()]
        for name, (labels, read) in self._gauges.items():
            lines += [f"# TYPE {name} gauge", *(_line(name, labels, values, value) for values, value in read())]
        return "\n".join(lines) + "\n"


def resident_memory() -> Iterable[tuple[Labels, float]]:
    """Return the bytes of RAM that this process uses."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            yield (), int(line.split()[1]) * 1024


def _line(name: str, labels: Labels, values: Labels, value: float) -> str:
    pairs = ",".join(f'{label}="{_escape(text)}"' for label, text in zip(labels, values, strict=True))
    return f"{name}{{{pairs}}} {value:.17g}"


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
