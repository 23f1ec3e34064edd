"""Models: the versions in memory, the thread that watches their folders, and the version that answers a request.

A new version is loaded and warmed up while the old one serves. Then one assignment switches to it, and the old version
is closed when the last of its requests has ended. One thread at a time loads and unloads; requests only look up.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any

from tfjob.serve import engine, policy, savedmodel, warmup
from tfjob.serve.config import Batching, InvalidConfig, Loading, ModelConfig
from tfjob.serve.config_files import read_batching
from tfjob.serve.engine import Engine
from tfjob.serve.errors import Code, Status, invalid
from tfjob.serve.metrics import Metrics
from tfjob.serve.savedmodel import InvalidModel, SavedModel

log = logging.getLogger("tfjob.serve")

BATCHING_FILE = "batching_params.pbtxt"
ENDED_ROWS = 10
"""Rows of versions that have ended that stay in the status of a model, and models that stay in it after removal."""
SMALL = 1_000_000
"""Bytes of a model whose runs may be shorter without more threads."""
REMINDER_SECONDS = 60.0
"""Between two lines of the log about a model without a version."""


class State(IntEnum):
    """The state of a version, with TensorFlow Serving's numbers."""

    START = 10
    LOADING = 20
    AVAILABLE = 30
    UNLOADING = 40
    END = 50


@dataclass(frozen=True, slots=True)
class VersionStatus:
    """A row of a model's status."""

    version: int
    state: State
    code: Code = Code.OK
    message: str = ""


class Version:
    """A version in memory. It is closed once it is retired and no lease is left."""

    def __init__(self, name: str, number: int, model: SavedModel, loaded: Engine, batching: Batching) -> None:
        self.name = name
        self.number = number
        self.model = model
        self.engine = loaded
        self.batching = batching
        self.queues: dict[str, Any] = {}
        """By signature; they belong to the event loop that answers requests."""
        self._leases = 0
        self._idle = threading.Condition()

    def acquire(self) -> None:
        """Keep the version in memory until `release`."""
        with self._idle:
            self._leases += 1

    def release(self) -> None:
        with self._idle:
            self._leases -= 1
            if not self._leases:
                self._idle.notify_all()

    def __enter__(self) -> Version:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def close_when_idle(self, seconds: float | None = None) -> bool:
        """Wait until no request needs the version, and free its memory; False if the time is up before."""
        with self._idle:
            if not self._idle.wait_for(lambda: not self._leases, seconds):
                return False
        self.engine.close()
        return True


@dataclass
class _Model:
    """A configured model. `ready` is replaced, never changed; `latest` is its newest version."""

    config: ModelConfig
    labels: Mapping[str, int] = field(default_factory=dict)
    ready: Mapping[int, Version] = field(default_factory=dict)
    latest: Version | None = None
    rows: dict[int, VersionStatus] = field(default_factory=dict)
    failures: dict[int, policy.Failure] = field(default_factory=dict)
    warned: set[str] = field(default_factory=set)
    reminded_at: float = float("-inf")

    def publish(self, ready: Mapping[int, Version]) -> None:
        self.latest = ready[max(ready)] if ready else None
        self.ready = ready


class Models:
    """The models of a server. `on_change` is called after each change of the versions that serve."""

    def __init__(
        self,
        loading: Loading,
        batching: Batching,
        metrics: Metrics,
        load: Callable[[Path, Sequence[str], bytes], Engine] = engine.load,
    ) -> None:
        self.loading = loading
        self.batching = batching
        self.metrics = metrics
        self.on_change: list[Callable[[], None]] = []
        self._load_engine = load
        self._models: dict[str, _Model] = {}
        self._removed: dict[str, _Model] = {}
        """The last models that are no longer configured, whose versions stay in the status."""
        self._changing = threading.RLock()
        """Held by the one thread that loads and unloads."""
        self._looking = threading.Lock()
        """Held for the moment in which a version is found and leased, or replaced."""
        self._stop = threading.Event()
        self._watcher: threading.Thread | None = None
        self._unloading: list[threading.Thread] = []

    # --- requests ---

    def find(self, name: str, number: int | None = None, label: str = "") -> Version:
        """Return the version that answers, leased: use it in a `with` block. Raise Status if there is none."""
        if not name:
            raise invalid("ModelSpec has no name specified.")
        with self._looking:
            model = self._models.get(name)
            if model is not None and label:
                if label not in model.labels:
                    raise invalid(f"Unrecognized servable version label: {label}")
                number = model.labels[label]
            version = None if model is None else model.latest if number is None else model.ready.get(number)
            if version is None:
                wanted = f"Latest({name})" if number is None else f"Specific({name}, {number})"
                raise Status(Code.NOT_FOUND, f"Servable not found for request: {wanted}")
            version.acquire()
            return version

    def names(self) -> list[str]:
        """Return the names of the configured models."""
        with self._looking:
            return sorted(self._models)

    def statuses(self) -> dict[str, list[VersionStatus]]:
        """Return the rows of every model, also of those removed last, newest version first."""
        with self._looking:
            return {
                name: sorted(model.rows.values(), key=lambda row: row.version, reverse=True)
                for name, model in {**self._removed, **self._models}.items()
            }

    def labels(self, name: str) -> Mapping[str, int]:
        """Return the labels of a model."""
        model = self._models.get(name)
        return {} if model is None else model.labels

    def not_ready(self) -> list[str]:
        """Return a sentence for each configured model that has no available version; empty if the server is ready."""
        return [_describe_empty(model) for model in list(self._models.values()) if model.latest is None]

    # --- configuration ---

    def configure(self, configs: Sequence[ModelConfig]) -> None:
        """Serve exactly these models; return when every new one was tried once. Blocks: call it in a thread.

        Raise Status if a name occurs twice, or a label points to a version that is not available.
        """
        names = [config.name for config in configs]
        for name in names:
            if names.count(name) > 1:
                raise invalid(f"The model name {name} occurs more than once in the configuration.")
        with self._changing:
            for config in configs:
                self._add(config)
            for name in self._models.keys() - set(names):
                log.info("%s is removed from the configuration.", name)
                with self._looking:
                    model = self._removed[name] = self._models.pop(name)
                    model.rows = {number: row for number, row in model.rows.items() if number in model.ready}
                    while len(self._removed) > ENDED_ROWS:
                        del self._removed[next(iter(self._removed))]
                self._retire(model, model.ready.values())
            self._changed()
            for config in configs:
                self._set_labels(self._models[config.name], config.labels)

    def watch(self) -> None:
        """Start the thread that looks for new versions, unless the folders are to be read only once."""
        if self.loading.poll_seconds > 0:
            self._watcher = threading.Thread(target=self._watch, name="watch-models", daemon=True)
            self._watcher.start()

    def close(self, seconds: float = 30.0) -> None:
        """Stop the thread and unload everything, waiting at most this long for requests."""
        self._stop.set()
        if self._watcher is not None:
            self._watcher.join(seconds)
        end = time.monotonic() + seconds
        with self._changing:
            for model in self._models.values():
                self._retire(model, model.ready.values())
        for thread in self._unloading:
            thread.join(max(0.0, end - time.monotonic()))

    def _add(self, config: ModelConfig) -> None:
        old = self._models.get(config.name)
        if old is not None and old.config.base_path == config.base_path:
            old.config = config
            self._reconcile(old)
            return
        model = _Model(config)
        if old is None:  # so that the status has its rows while it loads
            with self._looking:
                self._models[config.name] = model
                self._removed.pop(config.name, None)
        self._reconcile(model)
        if old is not None:
            with self._looking:
                self._models[config.name] = model
            self._retire(old, old.ready.values())

    def _set_labels(self, model: _Model, labels: Mapping[str, int]) -> None:
        for label, number in labels.items():
            is_new = label not in model.labels and self.loading.labels_of_unavailable
            if number not in model.ready and model.labels.get(label) != number and not is_new:
                raise Status(
                    Code.FAILED_PRECONDITION,
                    f"Request to assign label to version {number} of model {model.config.name}, which is not currently "
                    f"available for inference",
                )
        with self._looking:
            model.labels = dict(labels)

    # --- the watch ---

    def _watch(self) -> None:
        while not self._stop.wait(self.loading.poll_seconds):
            with self._changing:
                if self._stop.is_set():
                    return
                for model in self._models.values():
                    try:
                        self._reconcile(model)
                    except Exception:
                        log.exception("The folder of %s could not be compared with its versions.", model.config.name)
                self._unloading = [thread for thread in self._unloading if thread.is_alive()]

    def _reconcile(self, model: _Model) -> None:
        """Load what the policy wants and unload what it does not want."""
        seen = self._look(model)
        if seen is None:
            return
        for number in model.failures.keys() - seen.keys():
            del model.failures[number]
            with self._looking:
                model.rows.pop(number, None)
        now = time.monotonic()
        while not self._stop.is_set():
            step = policy.next_step(
                model.config, seen.keys(), model.ready.keys(), model.failures, self.loading.retries, now
            )
            if step.load is None:
                break
            self._load(model, step.load, seen[step.load], now)
        if step.unload:
            self._retire(model, [model.ready[number] for number in sorted(step.unload)])
        if not seen and model.ready:
            self._warn(model, f"No version is left in {model.config.base_path}: the last one keeps serving.")

    def _look(self, model: _Model) -> dict[int, Path] | None:
        """Return the folders of versions by number; None if the model's folder is missing, which unloads nothing."""
        base = model.config.base_path
        try:
            folders = policy.read_names(path.name for path in base.iterdir() if path.is_dir())
        except OSError as error:
            self._warn(model, f"{base} cannot be read: {error.strerror}.")
            folders = None
        for warning in folders.warnings if folders else ():
            self._warn(model, warning)
        now = time.monotonic()
        if not (folders and folders.names) and not model.ready and now - model.reminded_at >= REMINDER_SECONDS:
            model.reminded_at = now
            log.warning("%s", _describe_empty(model))
        return None if folders is None else {number: base / name for number, name in folders.names.items()}

    def _load(self, model: _Model, number: int, folder: Path, now: float) -> None:
        """Load and warm up a version, and switch to it; record the failure if that fails."""
        name, loading = model.config.name, self.loading
        before = model.failures.get(number, policy.Failure(0, 0.0))
        begin = time.monotonic()
        try:
            content = savedmodel.read(folder, loading.tags)
            self._show(model, VersionStatus(number, State.LOADING))
            in_memory = ", ".join(f"{one.number} ({_megabytes(one.model.size)})" for one in model.ready.values())
            log.info(
                "Loading version %d of %s (%s)%s.",
                number, name, _megabytes(content.size), f" next to version {in_memory}" if in_memory else "",
            )  # fmt: skip
            loaded = self._load_engine(folder, loading.tags, loading.session_config)
            try:
                batching = self._batching_of(folder)
                self._warm_up(content, loaded)
            except BaseException:
                loaded.close()
                raise
        except InvalidModel as error:
            # Files may still be on their way, so this is no attempt: look again as often as at the folder.
            self._warn(model, str(error))
            model.failures[number] = policy.Failure(before.attempts, now + max(loading.poll_seconds, 0.001))
            self._show(model, VersionStatus(number, State.START, Code.FAILED_PRECONDITION, str(error)))
            return
        except Status as status:
            self.metrics.load(str(folder), status.code.name, time.monotonic() - begin)
            attempts = before.attempts + 1
            model.failures[number] = policy.Failure(attempts, time.monotonic() + loading.retry_seconds)
            is_last = attempts > loading.retries
            self._show(
                model, VersionStatus(number, State.END if is_last else State.LOADING, status.code, status.message)
            )
            again = "it is not tried again" if is_last else f"the next attempt is in {loading.retry_seconds:g} s"
            serving = f"version {model.latest.number} keeps serving" if model.latest else "no version serves"
            log.error("Version %d of %s does not load (%s); %s, %s.", number, name, status, serving, again)
            return
        self.metrics.load(str(folder), Code.OK.name, time.monotonic() - begin)
        model.failures.pop(number, None)
        version = Version(name, number, content, loaded, batching)
        with self._looking:
            model.rows[number] = VersionStatus(number, State.AVAILABLE)
            model.publish({**model.ready, number: version})
        log.info("Version %d of %s serves after %.1f s.", number, name, time.monotonic() - begin)
        if content.size < SMALL and not loading.session_config and "threads" not in model.warned:
            model.warned.add("threads")
            log.info("%s is small: --tensorflow_intra_op_parallelism=1 may make its answers faster.", name)
        self._changed()

    def _warm_up(self, content: SavedModel, loaded: Engine) -> None:
        if not self.loading.warmup:
            return
        begin, code = time.monotonic(), Code.OK
        try:
            warmup.warm_up(content, loaded, self.loading.warmup_iterations)
        except Status as status:
            code = status.code
            raise
        finally:
            self.metrics.warmup(str(content.folder), code.name, time.monotonic() - begin)

    def _retire(self, model: _Model, versions: Sequence[Version] | Any) -> None:
        """Stop finding these versions, and close each when its last request has ended."""
        gone = list(versions)
        with self._looking:
            for version in gone:
                model.rows[version.number] = VersionStatus(version.number, State.UNLOADING)
            model.publish({number: one for number, one in model.ready.items() if one not in gone})
        if gone:
            self._changed()
        for version in gone:
            thread = threading.Thread(target=self._unload, args=(model, version), name="unload", daemon=True)
            thread.start()
            self._unloading.append(thread)

    def _unload(self, model: _Model, version: Version) -> None:
        version.close_when_idle()
        log.info("Version %d of %s is unloaded.", version.number, version.name)
        with self._looking:
            if version.number not in model.ready:
                model.rows[version.number] = VersionStatus(version.number, State.END)
            ended = sorted(number for number, row in model.rows.items() if row.state is State.END)
            for number in ended[:-ENDED_ROWS]:
                del model.rows[number]

    def _show(self, model: _Model, row: VersionStatus) -> None:
        with self._looking:
            model.rows[row.version] = row

    def _batching_of(self, folder: Path) -> Batching:
        """Return the version's own batching parameters, if they are to be read and there are any."""
        file = folder / BATCHING_FILE
        if not self.loading.per_model_batching or not file.is_file():
            return self.batching
        try:
            batching, warnings = read_batching(file)
        except InvalidConfig as error:
            raise invalid(str(error)) from None
        for warning in warnings:
            log.warning("%s", warning)
        return batching

    def _warn(self, model: _Model, sentence: str) -> None:
        """Log a sentence about a model once."""
        if sentence not in model.warned:
            model.warned.add(sentence)
            log.warning("%s: %s", model.config.name, sentence)

    def _changed(self) -> None:
        for call in self.on_change:
            call()


def _describe_empty(model: _Model) -> str:
    base = model.config.base_path
    reasons = [row.message for row in model.rows.values() if row.message]
    if reasons:
        return f"The model {model.config.name} has no version that serves: {reasons[0]}"
    try:
        names = sorted(path.name for path in base.iterdir())
    except OSError:
        return f"The model {model.config.name} has no version yet: there is no folder {base}."
    contents = f"contains {', '.join(names[:10])}{' ...' if len(names) > 10 else ''}" if names else "is empty"
    return f"The model {model.config.name} has no version yet: {base} {contents}."


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
