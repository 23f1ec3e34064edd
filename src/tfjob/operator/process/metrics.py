"""The operator's metrics, under the names that the dashboards of controller-runtime and training-operator read.

`SampleCollector` measures its metrics only when Prometheus reads them: it would be costly to keep them up to date.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

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

QUEUE = {"name": "tfjob-controller", "controller": "tfjob-controller"}
"""The labels of the one queue that all kinds share."""
FRAMEWORK = "tensorflow"
Row = tuple[Mapping[str, str], float]
"""Labels and a value."""
SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics(Hooks):
    """Every counter of one operator process; the controller and the client call its methods."""

    def __init__(self, kinds: Iterable[str] = (KIND,), *, workers: int = 1, host: str = "") -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        histogram = partial(Histogram, registry=registry, buckets=SECONDS)
        self._host = host

        kind = ["controller"]
        self._results = counter("controller_runtime_reconcile", "Number of passes by result", [*kind, "result"])
        self._errors = counter("controller_runtime_reconcile_errors", "Number of passes that failed", kind)
        self._pass = histogram("controller_runtime_reconcile_time_seconds", "Duration of a pass in seconds", kind)
        most = gauge("controller_runtime_max_concurrent_reconciles", "Maximum number of passes at the same time", kind)
        for name in map(_controller, kinds):
            most.labels(name).set(workers)
            self._errors.labels(name)
            self._pass.labels(name)
            for result in (SUCCESS, REQUEUE_AFTER, ERROR):
                self._results.labels(name, result)

        def queue(make: Any, name: str, text: str) -> Any:
            return make(f"workqueue_{name}", text, list(QUEUE)).labels(**QUEUE)

        self._adds = queue(counter, "adds", "Number of keys added to the queue")
        self._retries = queue(counter, "retries", "Number of retries after failed passes")
        self._depth = queue(gauge, "depth", "Number of jobs waiting in the queue")
        self._waited = queue(histogram, "queue_duration_seconds", "Seconds that a job waited in the queue")
        self._worked = queue(histogram, "work_duration_seconds", "Seconds that a worker spent on a job")

        request = ["code", "host", "method"]
        self._requests = counter("rest_client_requests", "Number of requests to the API server", request)
        leading = gauge("leader_election_master_status", "1 while this process is the leader, else 0", ["name"])
        self.leading = leading.labels("tf-operator")
        self.loop_lag = gauge("event_loop_lag_seconds", "Seconds by which the event loop runs late")

        change = ["kind", "state"]
        self._states = counter("tfjob_state_changes", "Number of state changes by kind and new state", change)
        self._jobs = {
            name: counter(f"training_operator_jobs_{name}", f"Number of {name} jobs", ["job_namespace", "framework"])
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
        name = _controller(key.kind)
        self._results.labels(name, result).inc()
        self._pass.labels(name).observe(seconds)
        if result == ERROR:
            self._errors.labels(name).inc()

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

    # --- the hook of the client ----------------------------------------------------------------------------------

    def requested(self, method: str, code: int, seconds: float) -> None:
        self._requests.labels(str(code) if code else "<error>", self._host, method).inc()


class SampleCollector(Collector):
    """Values that are computed when they are read."""

    def __init__(
        self, queue: WorkQueue, cluster: KubeCluster, configuration: Configuration, event_log: EventLog
    ) -> None:
        self._queue = queue
        self._cluster = cluster
        self._configuration = configuration
        self._event_log = event_log

    def collect(self) -> Iterator[Metric]:
        working = self._queue.working_seconds()
        count, longest = [({"controller": QUEUE["controller"]}, len(working))], max(working, default=0.0)
        yield _gauge("controller_runtime_active_workers", "Number of passes in progress", count)
        total = "Total age in seconds of all passes in progress"
        yield _gauge("workqueue_unfinished_work_seconds", total, [(QUEUE, sum(working))])
        oldest = "Age in seconds of the oldest pass in progress"
        yield _gauge("workqueue_longest_running_processor_seconds", oldest, [(QUEUE, longest)])
        reflectors = [({"resource": _label(one.resource)}, one) for one in self._cluster.reflectors]
        ages = [(label, one.last_event_age) for label, one in reflectors]
        yield _gauge("informer_last_event_age_seconds", "Seconds since the last event of a watch", ages)
        ends = [({**label, "reason": why}, count) for label, one in reflectors for why, count in one.restarts.items()]
        yield _counter("watch_restarts", "Number of watch restarts by reason", ends)
        sizes = [(label, len(one.store)) for label, one in reflectors]
        yield _gauge("tfjob_cached_objects", "Number of cached objects", sizes)
        dropped = self._event_log.dropped
        yield _counter("tfjob_events_dropped", "Number of events that were dropped", [({}, dropped)])
        good, text = float(self._configuration.good), "0 if the last configuration was invalid, else 1"
        yield _gauge("tfjob_controller_config_last_read_successful", text, [({}, good)])


def _family(make: Callable[[str, str], Metric], name: str, text: str, rows: Iterable[Row]) -> Metric:
    family = make(name, text)
    for labels, value in rows:
        family.add_sample(name + ("_total" if family.type == "counter" else ""), dict(labels), value)
    return family


_gauge, _counter = partial(_family, GaugeMetricFamily), partial(_family, CounterMetricFamily)


def _controller(kind: str) -> str:
    """Return the name of a kind's controller as controller-runtime forms it."""
    return f"{kind.lower()}-controller"


def _label(resource: Resource) -> str:
    """Return the name of a resource in metrics; two resources have the plural `tfjobs`."""
    return f"{resource.plural}.{resource.group}" if resource == TF_JOBS else resource.plural
