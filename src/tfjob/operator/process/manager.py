"""The operator's process: fill the caches, acquire the lease, run the controller, and shut down gracefully.

The caches are filled before the process becomes the leader, so that a standby takes over at once. A process that loses
the lease exits: if it stopped only in part, it could still write after another process leads.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import time
import uuid
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import urlsplit

import uvloop

from tfjob import __version__
from tfjob.api.crd.tfjob import NAME as CRD_NAME
from tfjob.api.crd.tfjob import crd_problem
from tfjob.api.dialect import JOB_KINDS
from tfjob.api.objects import PodGroup
from tfjob.api.resources import CRDS, PODGROUPS, VOLCANO_PODGROUPS, Resource
from tfjob.api.types import KIND
from tfjob.controller.controller import Controller
from tfjob.kinds import cluster_kinds
from tfjob.kube.access import config
from tfjob.kube.access.config import Access
from tfjob.kube.access.errors import ConfigError, Forbidden, KubeError, NotFound
from tfjob.kube.client.client import Client
from tfjob.kube.client.version import server_version, version_problem
from tfjob.kube.cluster.cluster import KubeCluster
from tfjob.kube.cluster.event_log import EventLog
from tfjob.kube.cluster.lease import Lease, LeaseLost
from tfjob.kube.cluster.tensorflow_org import TensorFlowOrgStorage
from tfjob.operator.options import LEASE_NAME, MAKE_CRDS, Options, host_names
from tfjob.operator.process.config import ConfigMapConfiguration, Configuration, ControllerConfig, FileConfiguration
from tfjob.operator.process.metrics import Metrics, SampleCollector
from tfjob.operator.servers import Check, health_app, metrics_app, serving
from tfjob.plan.build.pod_groups import is_volcano
from tfjob.plan.kind import TfJobKind

if TYPE_CHECKING:
    from tfjob.operator.webhook.server import Webhook

logger = logging.getLogger("tfjob.operator")

LAG_SECONDS = 1.0
CONNECTIONS = 32
"""Each connection takes 0.25 MiB, and more of them do not make an API server faster."""


class Operator:
    """One operator process; `run` returns after a request to stop, and raises LeaseLost if it lost its lease."""

    def __init__(
        self, client: Client, lease_client: Client, access: Access, options: Options, kinds: Sequence[str] = (KIND,)
    ) -> None:
        namespace = options.lease_namespace or access.namespace
        self.client = client
        self.options = options
        self.kinds = [kind for kind in cluster_kinds(options.settings) if kind.resource.kind in kinds]
        self.metrics = Metrics(kinds, workers=options.workers, host=urlsplit(access.server).netloc)
        self.event_log = EventLog(client)
        groups = pod_groups(options)
        self.cluster = KubeCluster(
            client,
            self.event_log,
            self.kinds,
            namespace=options.namespace,
            resources={PodGroup: groups} if groups else {},
            storages={
                kind.resource.kind: TensorFlowOrgStorage(client, kind)
                for kind in self.kinds
                if isinstance(kind, TfJobKind)
            },
            watch_nodes=not options.namespace,
        )
        self.controller = Controller(
            self.cluster,
            self.kinds,
            clock=lambda: datetime.now(UTC).replace(microsecond=0),  # a status on a cluster has whole seconds
            hooks=self.metrics,
            durations=options.durations,
        )
        self.lease: Lease | None = None
        if options.leader_elect:
            self.lease = Lease(lease_client, namespace, LEASE_NAME, f"{socket.gethostname()}_{uuid.uuid4()}")
        self._configured(ControllerConfig(), "")
        self.configuration: Configuration
        if options.controller_config_file:
            self.configuration = FileConfiguration(self._configured, self.event_log.add, namespace, options)
        else:
            self.configuration = ConfigMapConfiguration(
                self._configured, self.event_log.add, client, namespace, options
            )
        self.webhook: Webhook | None = None
        address = options.webhook_bind_address
        if address.port:
            from tfjob.operator.webhook.server import Webhook  # an operator without a webhook saves 8 MiB

            self.webhook = Webhook(client, address, [*host_names(namespace), *address.host_names])
        self._stop = asyncio.Event()
        client.observe = self.metrics.requested
        samples = SampleCollector(self.controller.queue, self.cluster, self.configuration, self.event_log)
        self.metrics.registry.register(samples)

    def _configured(self, config: ControllerConfig, program: str) -> None:
        settings = replace(
            self.options.settings,
            accelerators=config.accelerators,
            tf_image=config.tf_image or self.options.tf_image,
            server_program=program,
        )
        for kind in self.kinds:
            kind.settings = settings

    def stop(self) -> None:
        self._stop.set()

    def resumed(self, *_: object) -> None:
        """Exit at once if the lease expired while the process was paused: a request may have passed its fence."""
        if self.client.before_write is not None:
            try:
                self.client.before_write()
            except LeaseLost as error:
                _leave(error)

    async def run(self) -> None:
        async with AsyncExitStack() as stack:
            # The process is healthy if it can make progress, even while the API server is not.
            healthy: dict[str, Check] = {"ping": lambda: "", "watches": self._stale_watch}
            ready = {"caches": self._unsynced, **({"webhook": self.webhook.fault} if self.webhook else {})}
            for app, address in (
                (health_app(healthy, ready), self.options.health_probe_bind_address),
                (metrics_app(self.metrics.registry), self.options.metrics_bind_address),
            ):
                await stack.enter_async_context(serving(app, address))
            work = asyncio.create_task(self._work())
            stopped = asyncio.create_task(self._stop.wait())
            try:
                await asyncio.wait((work, stopped), return_when=asyncio.FIRST_COMPLETED)
            finally:
                stopped.cancel()
                await self._end(work)
        if work.done() and not work.cancelled():
            _reraise(work)

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.cluster.follow())
            tasks.create_task(self._watch_the_loop())
            if self.webhook is not None:
                tasks.create_task(self.webhook.run())
            if self.lease is not None:
                logger.info("waiting for the lease %s", self.lease.where)
                await self.lease.acquire()
                logger.info("lease acquired: %s", self.lease.where)
                self.client.before_write = self.lease.check
                tasks.create_task(self.lease.hold())
            self.metrics.leading.set(1)
            logger.info("controller starting")
            await self.cluster.synced()
            tasks.create_task(self.configuration.run())
            await self.configuration.first()
            jobs, pods = sum(map(len, self.cluster.owners.values())), len(self.cluster.pods)
            logger.info("caches synced: %d jobs, %d pods", jobs, pods)
            # The caches stay in memory: the garbage collector need not scan them again and again.
            gc.collect()
            gc.freeze()
            tasks.create_task(self.event_log.run())
            tasks.create_task(self.controller.run(self.options.workers))
            logger.info("workers started: %d", self.options.workers)

    async def _end(self, work: asyncio.Task[None]) -> None:
        """Let running passes finish, release the lease, and write the last events."""
        begun, durations = time.monotonic(), self.options.durations
        led = self.lease is None or self.lease.held
        if not work.done():
            await self.controller.drain(durations.last_passes.total_seconds())
            work.cancel()
            await asyncio.wait((work,), timeout=durations.last_passes.total_seconds())
        if led and self.lease is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(durations.lease_release.total_seconds()):
                    await self.lease.release()
        if led:
            # Events are harmless: they may be written while the next process leads.
            self.client.before_write = None
            with suppress(TimeoutError):
                async with asyncio.timeout(durations.last_events.total_seconds()):
                    await self.event_log.flush()
        logger.info("shut down in %.1f s", time.monotonic() - begun)

    async def _watch_the_loop(self) -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(LAG_SECONDS)
            self.metrics.loop_lag.set(max(0.0, time.monotonic() - before - LAG_SECONDS))

    def _stale_watch(self) -> str:
        limit = self.options.durations.stuck_watch.total_seconds()
        stale = [one for one in self.cluster.reflectors if one.idle > limit]
        return ", ".join(f"the watch of {one.resource.plural} has been stuck for {one.idle:.0f} s" for one in stale)

    def _unsynced(self) -> str:
        missing = [one.resource.plural for one in self.cluster.reflectors if not one.synced.is_set()]
        return f"not synced yet: {', '.join(missing)}" if missing else ""


async def operate(access: Access, options: Options) -> None:
    logger.info("tfjob operator %s at %s", __version__, access.server)
    # The lease has its own connections: a renewal must not wait behind other writes.
    lengths = options.durations
    async with Client(access, CONNECTIONS, lengths) as client, Client(access, 2, lengths) as lease_client:
        kinds = await discover_job_kinds(client, options)
        operator = Operator(client, lease_client, access, options, kinds)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, operator.stop)
        # Not through the event loop: it may send pending requests before it handles signals.
        signal.signal(signal.SIGCONT, operator.resumed)
        await operator.run()


def pod_groups(options: Options) -> Resource | None:
    if not options.gang_scheduler_name:
        return None
    return VOLCANO_PODGROUPS if is_volcano(options.gang_scheduler_name) else PODGROUPS


async def discover_job_kinds(client: Client, options: Options) -> list[str]:
    """Return the kinds of jobs that the cluster serves. Raises ConfigError if it is too old or lacks a CRD."""
    version = await server_version(client)
    if problem := version_problem(version):
        raise ConfigError(problem, "Use a newer cluster.")
    groups = pod_groups(options)
    if groups is not None and not await client.serves(groups):
        raise ConfigError(
            f"the cluster has no CRD {groups.plural}.{groups.group}, which --gang-scheduler-name needs",
            f"Install the scheduler {options.gang_scheduler_name} with its CRDs first.",
        )
    wanted = {kind: one for kind, one in JOB_KINDS.items() if not options.api_groups or one.group in options.api_groups}
    kinds = [kind for kind, resource in wanted.items() if await client.serves(resource)]
    for kind, resource in wanted.items() if options.api_groups else ():
        if kind not in kinds:
            raise ConfigError(f"the cluster has no CRD {resource.plural}.{resource.group}", f"Run: {MAKE_CRDS}")
    if not kinds:
        raise ConfigError(f"the cluster has no CRD {CRD_NAME}", f"Run: {MAKE_CRDS}")
    if KIND in kinds:
        with suppress(Forbidden, NotFound):  # an operator of one namespace may not read CRDs
            if problem := crd_problem(await client.get(CRDS, "", CRD_NAME)):
                logger.warning("%s", problem)
    return kinds


def main(context: str, options: Options) -> int:
    """Run the operator; return 0 after a shutdown on request. Raises KubeError for problems that the user can fix."""
    try:
        uvloop.run(operate(config.load(context or None), options))
    except LeaseLost as error:
        _leave(error)
    except KubeError:
        raise
    except Exception:
        # In a cluster the log is the only trace, so it gets the traceback.
        logger.exception("the operator failed")
        raise
    return 0


def _leave(error: LeaseLost) -> NoReturn:
    """Exit at once: no pending request may reach the API server."""
    with suppress(RuntimeError):  # a signal handler may interrupt a half-written line
        logger.error("lost the lease: %s", error)
        logging.shutdown()
    os._exit(1)


def _reraise(work: asyncio.Task[None]) -> None:
    error = work.exception()
    if isinstance(error, BaseExceptionGroup):
        found: BaseException | None = error.subgroup(LeaseLost) or error.subgroup(KubeError)
        while isinstance(found, BaseExceptionGroup):
            found = found.exceptions[0]
        error = found or error
    if error is not None:
        raise error
