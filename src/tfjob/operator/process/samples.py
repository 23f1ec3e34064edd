"""What is measured only when Prometheus asks: ages, sums and sizes that would cost something to keep up to date."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from prometheus_client.core import Metric

from tfjob.controller.queue import WorkQueue
from tfjob.kube.client.resources import TF_JOBS, Resource
from tfjob.kube.cluster.cluster import KubeCluster
from tfjob.kube.cluster.event_log import EventLog
from tfjob.operator.process.config_watch import Configuration
from tfjob.operator.process.metrics import CONTROLLER, counter, gauge


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


def _label(resource: Resource) -> str:
    """How a metric calls a kind: there are two with the plural `tfjobs`."""
    return f"{resource.plural}.{resource.group}" if resource == TF_JOBS else resource.plural
