"""Requests per second and latencies of a model, from two readings of a server's metrics page.

before = read(page, "mnist")
...
rates(before, read(later_page, "mnist"), seconds)
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

REQUESTS = ":tensorflow:serving:request_count"
LATENCY = ":tensorflow:serving:request_latency_bucket"
_SAMPLE = re.compile(r"(?P<name>[^\s{}]+)\{(?P<labels>.*)\} (?P<value>\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


@dataclass(frozen=True)
class Counts:
    """The requests of a model since its server has started, and those up to each latency in microseconds."""

    requests: float = 0
    latencies: Mapping[float, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Rates:
    """What happened between two readings; the latencies, in microseconds, are None without a successful request."""

    per_second: float
    p50: float | None
    p99: float | None

    def __str__(self) -> str:
        count = f"{self.per_second:.0f} requests/s"
        if self.p50 is None or self.p99 is None:
            return count
        return f"{count} · p50 {_milliseconds(self.p50)} · p99 {_milliseconds(self.p99)}"


def read(page: str, model: str) -> Counts:
    """Return the counts of a model; series of several APIs are added up."""
    requests = 0.0
    latencies: dict[float, float] = defaultdict(float)
    for line in page.splitlines():
        found = _SAMPLE.fullmatch(line)
        if found is None or found["name"] not in (REQUESTS, LATENCY):
            continue
        labels = {name: _ESCAPED.sub(r"\1", value) for name, value in _LABEL.findall(found["labels"])}
        if labels.get("model_name") != model:
            continue
        if found["name"] == REQUESTS:
            requests += float(found["value"])
        else:
            latencies[float(labels["le"])] += float(found["value"])
    return Counts(requests, latencies)


def rates(before: Counts, after: Counts, seconds: float) -> Rates:
    """Return the rates between two readings; a server that has restarted counts from 0."""
    if after.requests < before.requests:
        before = Counts()
    new = {bound: count - before.latencies.get(bound, 0) for bound, count in sorted(after.latencies.items())}
    per_second = (after.requests - before.requests) / seconds
    return Rates(per_second, _quantile(new, 0.5), _quantile(new, 0.99))


def _quantile(cumulative: Mapping[float, float], share: float) -> float | None:
    """Return a quantile of a histogram with cumulative counts, interpolated within its bucket; None if it is empty."""
    total = max(cumulative.values(), default=0)
    if not total:
        return None
    lower, below = 0.0, 0.0
    for bound, count in cumulative.items():
        if count >= share * total:
            if math.isinf(bound):
                break
            return lower + (bound - lower) * (share * total - below) / (count - below)
        lower, below = bound, count
    return lower


def _milliseconds(microseconds: float) -> str:
    return f"{microseconds / 1000:.{1 if microseconds < 100_000 else 0}f} ms"
