"""Follows the operator's configuration, in its ConfigMap or in a file, and keeps the last one that was good.

What changes concerns pods that are made from then on; pods that exist stay as they are.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import msgspec

from tfjob.api.objects import ConfigMap, ObjectMeta, Pod
from tfjob.api.problems import InvalidManifest, Problem
from tfjob.kube.access.errors import ConfigError, Forbidden, KubeError
from tfjob.kube.cache.reflector import Reflector
from tfjob.kube.cache.store import Store
from tfjob.kube.client.client import Client
from tfjob.kube.client.resources import CONFIG_MAPS
from tfjob.kube.cluster.event_log import Subject
from tfjob.operator.process.config import ControllerConfig, Read, read, read_config_map
from tfjob.plan.actions import News

logger = logging.getLogger("tfjob.operator")

FILE_SECONDS = 1.0
"""Between two looks at a file; the kubelet takes up to a minute to bring a new ConfigMap into one."""
DOCUMENTED_SERVER_FILE = "/opt/mlkube/grpc_tensorflow_server/grpc_tensorflow_server.py"
"""Where the first operator's image had its program: whoever names it wants the standard one, which is ours now."""
PROGRAM_BYTES = 900_000
"""A ConfigMap holds a MiB."""
INVALID, ODD, USED = "InvalidControllerConfig", "OddControllerConfig", "ControllerConfigUsed"

Use = Callable[[ControllerConfig, str], None]
Tell = Callable[[Subject, News], None]


class Configuration:
    """What is used now: each good configuration is passed on, a broken one changes nothing and is complained about.

    `use` gets the configuration and the program that it names for default parameter servers, if any. `good` is false
    while what was read last is broken.
    """

    def __init__(self, use: Use, tell: Tell) -> None:
        self._use = use
        self._tell = tell
        self.good = True

    def take(self, about: Subject, attempt: Callable[[], Read]) -> None:
        """Uses what `attempt` reads, if it can be used."""
        try:
            found = attempt()
        except InvalidManifest as error:
            self.good = False
            text = "; ".join(str(problem) for problem in error.problems)
            logger.error("the configuration is not used, the last good one is kept: %s", text)
            self._tell(about, News(INVALID, f"Not used, the last good one is kept: {text}", warning=True))
            return
        self.good = True
        program, warnings = _program(found.config.server_file)
        self._use(found.config, program)
        names = ", ".join(sorted(found.config.accelerators)) or "none"
        logger.info("configuration read; accelerators: %s", names)
        self._tell(about, News(USED, f"Used for new pods; accelerators: {names}"))
        for warning in (*found.warnings, *warnings):
            logger.warning("%s", warning)
            self._tell(about, News(ODD, str(warning), warning=True))

    def drop(self) -> None:
        """There is none any more."""
        self.good = True
        self._use(ControllerConfig(), "")
        logger.info("the configuration was deleted: no accelerators")


class ConfigMapWatch:
    """Follows one ConfigMap, which may come and go; `key` is where its configuration is looked for first."""

    def __init__(self, client: Client, namespace: str, name: str, key: str, configuration: Configuration) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._key = key
        self._configuration = configuration
        self._reflector: Reflector[ConfigMap] = Reflector(
            client,
            CONFIG_MAPS,
            msgspec.json.Decoder(ConfigMap).decode,
            Store(on_change=self._changed),
            namespace,
            field_selector=f"metadata.name={name}",
        )

    async def first(self) -> None:
        """Waits until what is there now was read; an operator that may not read it goes on without."""
        try:
            await self._client.get(CONFIG_MAPS, self._namespace, self._name)
        except Forbidden as error:
            logger.warning("the configuration %s/%s may not be read: %s", self._namespace, self._name, error.message)
            return
        except KubeError:
            pass  # there is none, or the reflector goes on trying
        await self._reflector.synced.wait()

    async def run(self) -> NoReturn:
        """Follows until cancelled."""
        await self._reflector.run()

    def _changed(self, old: ConfigMap | None, new: ConfigMap | None) -> None:
        if new is None:
            self._configuration.drop()
        elif old is None or old.data != new.data:
            source = f"ConfigMap {self._namespace}/{self._name}"
            self._configuration.take(new, lambda: read_config_map(new.data, source, self._key))


class FileWatch:
    """Follows a file, such as one of a mounted ConfigMap."""

    def __init__(self, file: Path, namespace: str, configuration: Configuration) -> None:
        self._file = file
        # A file has no Events: those about it are the operator's own.
        self._about = Pod(metadata=ObjectMeta(name=socket.gethostname(), namespace=namespace))
        self._configuration = configuration
        self._seen: bytes | None = None

    async def first(self) -> None:
        """Reads the file; raises ConfigError if that is not possible."""
        try:
            self._look()
        except OSError as error:
            hint = "Mount the ConfigMap that holds it, or leave --controller-config-file out."
            raise ConfigError(f"--controller-config-file {self._file}: {error.strerror}", hint) from None

    async def run(self) -> NoReturn:
        """Follows until cancelled; a file that is gone for a while leaves everything as it is."""
        while True:
            await asyncio.sleep(FILE_SECONDS)
            try:
                self._look()
            except OSError as error:
                logger.debug("%s: %s", self._file, error.strerror)

    def _look(self) -> None:
        text = self._file.read_bytes()
        if text != self._seen:
            self._seen = text
            self._configuration.take(self._about, lambda: read(text, str(self._file)))


def _program(path: str) -> tuple[str, list[Problem]]:
    """The program that a configuration names, and what is wrong with it: nothing then, which means ours."""
    if not path:
        return "", []
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        if path == DOCUMENTED_SERVER_FILE:
            return "", []
        reason = error.strerror or "cannot be read"
    except UnicodeDecodeError:
        reason = "is not UTF-8 text"
    else:
        if len(text.encode()) <= PROGRAM_BYTES:
            return text, []
        reason = "is too large for a ConfigMap"
    hint = "default parameter servers run the operator's own program"
    return "", [Problem("grpcServerFilePath", f"{path}: {reason}", hint, warning=True)]
