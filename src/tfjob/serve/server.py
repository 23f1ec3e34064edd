"""The process of a model server: read the flags, load the models, open the ports, and drain after SIGTERM.

`main(arguments, environ)` is `python -m tfjob.serve`. The ports open after the first attempt to load every model:
clients take an open port to mean that the server is ready.
"""

from __future__ import annotations

import asyncio
import gc
import importlib.metadata
import logging
import os
import resource
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import uvloop

from tfjob import __version__
from tfjob.errors import UserError
from tfjob.serve import config, config_files, grpc_server, rest_server
from tfjob.serve.config import Batching, ServerConfig
from tfjob.serve.config_files import METRICS_PATH
from tfjob.serve.errors import Status
from tfjob.serve.grpc_server import GrpcServer, Listening, Service
from tfjob.serve.metrics import Metrics, resident_memory
from tfjob.serve.models import Models
from tfjob.serve.predict import ENGINE_THREADS, Predictor
from tfjob.serve.rest_server import RestOptions, RestServer

log = logging.getLogger("tfjob.serve")
T = TypeVar("T")

FAILED = 255
"""The exit code of TensorFlow Serving for every error at its start."""
GRACE_SECONDS = 30.0
"""How long running requests may take after SIGTERM; Kubernetes kills a pod after as long by default."""
LINGER_SECONDS = 0.3
"""How long connections are still accepted after SIGTERM: clients of a Service may have opened some just before."""
MOST_FILES = 1 << 20
TENSORFLOW = ("tensorflow-cpu", "tensorflow", "tf-nightly-cpu", "tf-nightly")
"""Distributions that contain TensorFlow's libraries."""


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run a server until SIGTERM or SIGINT; return the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    try:
        parsed = config.parse(arguments, environ)
        if parsed.question:
            print(versions() if parsed.question == "version" else config.usage(), end="")
            return 0
        for warning in parsed.warnings:
            log.warning("%s", warning)
    except UserError as error:
        _print_error(error)
        return FAILED
    _allow_many_connections()
    uvloop.run(_serve(parsed.config))
    return 0


async def _serve(settings: ServerConfig) -> None:
    """Serve, then end the process without waiting for threads: TensorFlow cannot interrupt a load or a run."""
    code = 0
    try:
        await Server(settings).run()
    except (UserError, Status) as error:
        _print_error(error)
        code = FAILED
    logging.shutdown()
    sys.stdout.flush()
    os._exit(code)


def _print_error(error: UserError | Status) -> None:
    hint = getattr(error, "hint", "")
    print(f"error: {error.message}" + (f"\nhint: {hint}" if hint else ""), file=sys.stderr, flush=True)


def versions() -> str:
    """Return the text of `--version`, in the form of tensorflow_model_server."""
    found = (_version(name) for name in TENSORFLOW)
    library = next(filter(None, found), "not installed")
    return f"TensorFlow ModelServer: tfjob {__version__}\nTensorFlow Library: {library}\n"


class Server:
    """One server: its models and the two servers that answer for them."""

    def __init__(self, settings: ServerConfig) -> None:
        """Read the files that the settings name; raise InvalidConfig if one of them is invalid."""
        self.settings = settings
        self.metrics = Metrics()
        self.stopping = asyncio.Event()
        files = settings.batching_parameters_file, settings.monitoring_config_file, settings.ssl_config_file
        batching_file, monitoring_file, ssl_file = (Path(name) if name else None for name in files)
        batching = Batching(enabled=settings.enable_batching)
        if batching_file:
            batching = _warned(config_files.read_batching(batching_file))
        self.metrics_path = config_files.read_monitoring(monitoring_file) if monitoring_file else METRICS_PATH
        self.tls = config_files.read_tls(ssl_file) if ssl_file else None
        models_file = settings.model_config_file
        self.configs = _warned(config_files.read_models(Path(models_file))) if models_file else [settings.model]
        self.models = Models(settings.loading(config_files.session_config(settings)), batching, self.metrics)
        self.predictor = Predictor(
            self.models,
            self.metrics,
            settings.enable_signature_method_name_check,
            settings.grpc_max_threads or ENGINE_THREADS,
        )
        self.metrics.gauge("resident_memory_bytes", (), resident_memory)
        self.metrics.gauge(
            "version_state",
            ("model_name", "version", "state"),
            lambda: [
                ((name, str(row.version), row.state.name), 1)
                for name, rows in self.models.statuses().items()
                for row in rows
            ],
        )

    async def run(self) -> None:
        """Load, serve until a signal arrives, and drain."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stopping.set)
        if not await self._load():
            return
        _calm_collector()
        rest = self._rest_server()
        grpc = await grpc_server.start(
            Service(self.predictor, self.settings.enable_serialization_as_tensor_content),
            Listening(grpc_addresses(self.settings), self.tls, self.settings.channel_arguments),
        )
        if rest:
            await rest.start()
        await self._report_health(grpc)
        for name in grpc_addresses(self.settings):
            log.info("gRPC listens on %s", name)
        if rest:
            log.info("REST listens on %s", address(self.settings.host, self.settings.rest_api_port))
        self.models.watch()
        following = asyncio.create_task(self._follow_models())
        await self.stopping.wait()
        log.info("Stopping: running requests have %g s to finish", GRACE_SECONDS)
        following.cancel()
        if rest:
            rest.close_connections()
        await asyncio.sleep(LINGER_SECONDS)
        await asyncio.gather(grpc.stop(GRACE_SECONDS), *([rest.stop()] if rest else []))
        log.info("Stopped")

    def not_ready(self) -> list[str]:
        """Return why the server is not ready, as sentences."""
        return ["The server is stopping."] if self.stopping.is_set() else self.models.not_ready()

    def _rest_server(self) -> RestServer | None:
        settings = self.settings
        if not settings.rest_api_port:
            return None
        options = RestOptions(
            host=settings.host,
            port=settings.rest_api_port,
            timeout_seconds=settings.rest_api_timeout_in_ms / 1000 or None,
            grace_seconds=GRACE_SECONDS,
            cors=settings.rest_api_enable_cors_support,
            metrics_path=self.metrics_path,
            tls=rest_server.tls_context(self.tls) if self.tls else None,
        )
        return RestServer(self.predictor, self.metrics, self.not_ready, options)

    async def _load(self) -> bool:
        """Load the models in a thread; False if a signal arrived first."""
        loading = asyncio.create_task(asyncio.to_thread(self.models.configure, self.configs))
        stopped = asyncio.create_task(self.stopping.wait())
        await asyncio.wait({loading, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not loading.done():
            log.info("Stopped before the models were loaded")
            return False
        stopped.cancel()
        loading.result()
        return True

    async def _report_health(self, grpc: GrpcServer) -> None:
        """Let the health service of gRPC follow the models, which change in another thread."""
        loop = asyncio.get_running_loop()
        updates: set[asyncio.Task[None]] = set()

        def update() -> None:
            task = loop.create_task(grpc.set_ready(not self.not_ready()))
            updates.add(task)
            task.add_done_callback(updates.discard)

        def change() -> None:
            loop.call_soon_threadsafe(update)

        self.models.on_change.append(change)
        await grpc.set_ready(not self.not_ready())

    async def _follow_models(self) -> None:
        """Apply changes of --model_config_file. What fails is tried again at the next read: a version may arrive."""
        pause, path = self.settings.model_config_file_poll_wait_seconds, Path(self.settings.model_config_file)
        reported = ""
        while pause:
            await asyncio.sleep(pause)
            try:
                found = config_files.read_models(path)
                if found[0] != self.configs:
                    await asyncio.to_thread(self.models.configure, found[0])
                    self.configs = _warned(found)
                    log.info("Applied the changed %s", path)
                reported = ""
            except Exception as error:
                if str(error) != reported:
                    log.error("%s; the old configuration stays", getattr(error, "message", repr(error)))
                reported = str(error)


def address(host: str, port: int) -> str:
    """Return an address as gRPC and URLs write it; an empty host means all addresses."""
    host = host or "::"
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def grpc_addresses(settings: ServerConfig) -> list[str]:
    port = [address(settings.host, settings.port)] if settings.port else []
    return port + ([f"unix:{settings.grpc_socket_path}"] if settings.grpc_socket_path else [])


def _warned(found: tuple[T, list[str]]) -> T:
    value, warnings = found
    for warning in warnings:
        log.warning("%s", warning)
    return value


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _calm_collector() -> None:
    """Make Python's garbage collector skip what exists now and run less often.

    A large JSON request creates thousands of lists, and none of them is part of a cycle.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def _allow_many_connections() -> None:
    """Raise the limit of open files, which is 1024 by default, as far as the system allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
