"""The operator's metrics, under the names that the dashboards of controller-runtime and training-operator read.

`samples` are measured only when Prometheus asks: ages, sums and sizes that would be costly to keep up to date.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tfjob.api.dialect import JOB_KINDS, TF_JOBS
from tfjob.api.resources import Resource
from tfjob.api.types import KIND, TFJobStatus
from tfjob.controller.hooks import ERROR, REQUEUE_AFTER, SUCCESS, Hooks
from tfjob.controller.kind import Key
from tfjob.controller.queue import WorkQueue
from tfjob.kube.cluster.cluster import KubeCluster
from tfjob.kube.cluster.event_log import EventLog
from tfjob.operator.process.config import Configuration
from tfjob.plan.facts.conditions import CREATED, FAILED, RESTARTING, SUCCEEDED, is_true

CONTROLLER = "tfjob-controller"
"""The name of the one queue that all kinds share."""
FRAMEWORK = "tensorflow"
RESULTS = (SUCCESS, REQUEUE_AFTER, ERROR)
SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


@dataclass(frozen=True)
class _Passes:
    """The counters of the passes over one kind."""

    results: Mapping[str, Counter]
    errors: Counter
    seconds: Histogram


class Metrics(Hooks):
    """Every counter of one operator process; it is the hooks of the controller and of the client."""

    def __init__(self, kinds: Iterable[str] = (KIND,), *, workers: int = 1, host: str = "") -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._host = host
        queue = {"name": CONTROLLER, "controller": CONTROLLER}
        self._results = Counter(
            "controller_runtime_reconcile", "Passes by result", ["controller", "result"], registry=registry
        )
        self._errors = Counter(
            "controller_runtime_reconcile_errors", "Passes that failed", ["controller"], registry=registry
        )
        self._pass_seconds = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "Duration of a pass in seconds",
            ["controller"],
            registry=registry,
            buckets=SECONDS,
        )
        concurrent = Gauge(
            "controller_runtime_max_concurrent_reconciles",
            "Owners reconciled at the same time, at most",
            ["controller"],
            registry=registry,
        )
        self._passes: dict[str, _Passes] = {}
        for kind in kinds:
            concurrent.labels(_controller(kind)).set(workers)
            self._of_kind(kind)

        self._adds = Counter("workqueue_adds", "Wake-ups", list(queue), registry=registry).labels(**queue)
        self._retries = Counter("workqueue_retries", "Passes asked for again", list(queue), registry=registry).labels(
            **queue
        )
        self._depth = Gauge("workqueue_depth", "Jobs that wait", list(queue), registry=registry).labels(**queue)
        self._waited = Histogram(
            "workqueue_queue_duration_seconds",
            "Seconds that a job waited",
            list(queue),
            registry=registry,
            buckets=SECONDS,
        ).labels(**queue)
        self._worked = Histogram(
            "workqueue_work_duration_seconds",
            "Seconds that a job was worked on",
            list(queue),
            registry=registry,
            buckets=SECONDS,
        ).labels(**queue)

        self._requests = Counter(
            "rest_client_requests", "Requests to the API server", ["code", "host", "method"], registry=registry
        )
        self._answers: dict[tuple[str, int], Counter] = {}
        """A counter for each kind of answer: to find one by its labels takes longer than to count."""
        self.leading = Gauge(
            "leader_election_master_status", "1 while this process leads", ["name"], registry=registry
        ).labels("tf-operator")
        self.loop_lag = Gauge("event_loop_lag_seconds", "How late the event loop runs", registry=registry)

        self._states = Counter(
            "tfjob_state_changes", "Changes of state by kind and new state", ["kind", "state"], registry=registry
        )
        labels = ["job_namespace", "framework"]
        self._jobs = {
            name: Counter(f"training_operator_jobs_{name}", f"Jobs {name}", labels, registry=registry)
            for name in ("created", "deleted", "successful", "failed", "restarted")
        }

    # --- the hooks of the controller ------------------------------------------------------------------------------

    def added(self, depth: int) -> None:
        self._adds.inc()
        self._depth.set(depth)

    def taken(self, depth: int, waited: float) -> None:
        self._depth.set(depth)
        self._waited.observe(waited)

    def retried(self) -> None:
        self._retries.inc()

    def finished(self, seconds: float) -> None:
        self._worked.observe(seconds)

    def reconciled(self, key: Key, result: str, seconds: float) -> None:
        passes = self._of_kind(key.kind)
        passes.results[result].inc()
        passes.seconds.observe(seconds)
        if result == ERROR:
            passes.errors.inc()

    def status_changed(self, key: Key, before: Any, after: Any) -> None:
        if before.state != after.state:
            self._states.labels(key.kind, after.state).inc()
        if not isinstance(after, TFJobStatus):
            return
        for name, condition in (("created", CREATED), ("successful", SUCCEEDED), ("failed", FAILED)):
            if is_true(after.conditions, condition) and not is_true(before.conditions, condition):
                self._jobs[name].labels(key.namespace, FRAMEWORK).inc()
        if after.restarts > before.restarts or (
            is_true(after.conditions, RESTARTING) and not is_true(before.conditions, RESTARTING)
        ):
            self._jobs["restarted"].labels(key.namespace, FRAMEWORK).inc()

    def owner_deleted(self, key: Key) -> None:
        if key.kind in JOB_KINDS:
            self._jobs["deleted"].labels(key.namespace, FRAMEWORK).inc()

    def _of_kind(self, kind: str) -> _Passes:
        """Return the counters of a kind: finding one by its labels takes longer than counting."""
        if kind not in self._passes:
            name = _controller(kind)
            results = {result: self._results.labels(name, result) for result in RESULTS}
            self._passes[kind] = _Passes(results, self._errors.labels(name), self._pass_seconds.labels(name))
        return self._passes[kind]

    # --- the hook of the client ----------------------------------------------------------------------------------

    def requested(self, method: str, code: int, seconds: float) -> None:
        """The API server answered, or did not (code 0)."""
        count = self._answers.get((method, code))
        if count is None:
            labels = (str(code) if code else "<error>", self._host, method)
            count = self._answers[method, code] = self._requests.labels(*labels)
        count.inc()


class SampleCollector(Collector):
    """Values that are asked for when somebody reads them."""

    def __init__(self, families: Callable[[], Iterable[Metric]]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        """The values now."""
        yield from self._families()


def gauge(name: str, text: str, labels: Sequence[str], rows: Iterable[tuple[Sequence[str], float]]) -> Metric:
    """A family of present values."""
    family = GaugeMetricFamily(name, text, labels=labels)
    for row, value in rows:
        family.add_metric(row, value)
    return family


def counter(name: str, text: str, labels: Sequence[str], rows: Iterable[tuple[Sequence[str], float]]) -> Metric:
    """A family of sums."""
    family = CounterMetricFamily(name, text, labels=labels)
    for row, value in rows:
        family.add_metric(row, value)
    return family


class Sampled(Protocol):
    """The parts of an operator that are measured."""

    cluster: KubeCluster
    configuration: Configuration
    event_log: EventLog

    @property
    def queue(self) -> WorkQueue:
        """The queue of its controller."""


def samples(operator: Sampled) -> Iterator[Metric]:
    """Every value, now."""
    working = operator.queue.working_seconds()
    names, queue = ("name", "controller"), (CONTROLLER, CONTROLLER)
    yield gauge(
        "controller_runtime_active_workers", "Passes under way", ("controller",), [((CONTROLLER,), len(working))]
    )
    yield gauge("workqueue_unfinished_work_seconds", "Age of all passes under way", names, [(queue, sum(working))])
    longest = max(working, default=0.0)
    yield gauge("workqueue_longest_running_processor_seconds", "Age of the oldest one", names, [(queue, longest)])
    reflectors = operator.cluster.reflectors
    ages = [((_label(one.resource),), one.last_event_age) for one in reflectors]
    yield gauge("informer_last_event_age_seconds", "Since a watch said something", ("resource",), ages)
    restarts = [((_label(one.resource), reason), count) for one in reflectors for reason, count in one.restarts.items()]
    yield counter("watch_restarts", "Watches begun again", ("resource", "reason"), restarts)
    sizes = [((_label(one.resource),), len(one.store)) for one in reflectors]
    yield gauge("tfjob_cached_objects", "Objects in the caches", ("resource",), sizes)
    yield counter("tfjob_events_dropped", "News that were not written", (), [((), operator.event_log.dropped)])
    good = float(operator.configuration.good)
    yield gauge("tfjob_controller_config_last_read_successful", "0 while a broken one is not used", (), [((), good)])


def _controller(kind: str) -> str:
    """Return the name of a kind's controller as controller-runtime forms it."""
    return f"{kind.lower()}-controller"


def _label(resource: Resource) -> str:
    """Return the name of a resource in metrics; two have the plural `tfjobs`."""
    return f"{resource.plural}.{resource.group}" if resource == TF_JOBS else resource.plural
