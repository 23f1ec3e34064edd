"""The operator's configuration, in the format of the 2017 TfJob operator: accelerators and default parameter servers.

    grpcServerFilePath: /opt/server.py     # the program of default parameter servers
    tfImage: tensorflow/tensorflow:2.21.0  # their image, if a job names none
    accelerators:
      alpha.kubernetes.io/nvidia-gpu:      # for containers with this resource in limits or requests
        resource: nvidia.com/gpu           # request this resource instead
        volumes:
          - {name: lib, hostPath: /usr/lib/nvidia-384, mountPath: /usr/lib/nvidia}
        envVars:
          - {name: LD_LIBRARY_PATH, value: /usr/lib/nvidia}

Field names are case-insensitive. Unknown fields cause a warning: the 2017 operator ignored them.

`ConfigMapConfiguration` and `FileConfiguration` watch it and keep the last valid one. A change applies to new pods.
"""

from __future__ import annotations

import asyncio
import logging
import pathlib
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec.structs import replace

from tfjob.api.image_reference import image_fault
from tfjob.api.objects import ConfigMap, Object, ObjectMeta, Pod
from tfjob.api.problems import InvalidManifest, Path, Problem, errors, path_text
from tfjob.api.resources import CONFIG_MAPS
from tfjob.api.schema.checker import EMPTY, UNKNOWN_FIELD, Schema
from tfjob.api.text.reader import Document, described, parse
from tfjob.controller.actions import Event
from tfjob.kube.access.errors import ConfigError, Forbidden, KubeError
from tfjob.kube.cache.reflector import Reflector
from tfjob.kube.cache.store import ObjectStore
from tfjob.kube.client.client import Client
from tfjob.operator.options import CONFIG_KEY, Options
from tfjob.plan.build.accelerators import Accelerator, HostVolume

KEYS = (CONFIG_KEY, "controller-config-file.yaml")
"""Keys of the ConfigMap: the one in the 2017 documents, and the one of later releases."""
_DEFINITIONS = {
    "Config": {"accelerators": "{Accelerator}", "grpcServerFilePath": "string", "tfImage": "string"},
    "Accelerator": {"resource": "string", "volumes": "[Volume]", "envVars": "[Variable]"},
    "Volume": {"name": "string", "hostPath": "string", "mountPath": "string"},
    "Variable": {"name": "string", "value": "any"},
}
_SCHEMA = Schema(_DEFINITIONS, folded=frozenset(_DEFINITIONS))
_RESOURCE = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_VOLUME_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_VARIABLE_NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
logger = logging.getLogger("tfjob.operator")
DOCUMENTED_SERVER_FILE = "/opt/mlkube/grpc_tensorflow_server/grpc_tensorflow_server.py"
"""The path of the standard program in the image of the 2017 operator; it now means our program."""
PROGRAM_BYTES = 900_000
"""A ConfigMap can hold 1 MiB."""
INVALID, ODD, USED = "InvalidControllerConfig", "OddControllerConfig", "ControllerConfigUsed"
Tell = Callable[[Object, Event], None]


@dataclass(frozen=True)
class ControllerConfig:
    """The operator's configuration in addition to its command line."""

    accelerators: Mapping[str, Accelerator] = field(default_factory=dict)
    server_file: str = ""
    tf_image: str = ""


@dataclass(frozen=True)
class Read:
    """A valid configuration, and the warnings about it."""

    config: ControllerConfig
    warnings: list[Problem]


def read_config_map(data: Mapping[str, str], source: str, wanted: str = KEYS[0]) -> Read:
    """Read the configuration from a ConfigMap, if possible from the key `wanted`. Raises InvalidManifest."""
    key, warnings = _chosen_key(data, source, wanted)
    found = read(data[key], f"{source} {key}", wanted)
    return Read(found.config, [*warnings, *found.warnings])


def read(text: str | bytes, source: str, wanted: str = KEYS[0]) -> Read:
    """Read a configuration, or a whole ConfigMap that contains one. Raises InvalidManifest."""
    if not text.strip():
        return Read(ControllerConfig(), [])
    parsed = parse(text, source)
    if parsed.problems:
        raise InvalidManifest(parsed.problems)
    if len(parsed.documents) != 1:
        raise InvalidManifest([Problem("", "must contain exactly one document", source=source)])
    document = parsed.documents[0]
    if document.value.get("kind") == "ConfigMap" and isinstance(document.value.get("data"), dict):
        inner = read_config_map({key: str(value) for key, value in document.value["data"].items()}, source, wanted)
        hint = "apply the document with kubectl instead of making a ConfigMap from its file"
        note = Problem("", "the value is itself a ConfigMap; its data is used", hint, source=source, warning=True)
        return Read(inner.config, [note, *inner.warnings])
    reader = _Reader(document)
    config = reader.config()
    if errors(reader.problems):
        raise InvalidManifest(errors(reader.problems))
    return Read(config, reader.problems)


def _chosen_key(data: Mapping[str, str], source: str, wanted: str) -> tuple[str, list[Problem]]:
    known = [key for key in dict.fromkeys((wanted, *KEYS)) if key in data]
    if len(known) > 1:
        return known[0], [Problem("data", f"{known[0]} is used, {known[1]} is ignored", source=source, warning=True)]
    if known:
        return known[0], []
    if len(data) == 1:
        key = next(iter(data))
        return key, [Problem("data", f"{key} is used because there is no {wanted}", source=source, warning=True)]
    keys = ", ".join(sorted(data)) or "none"
    raise InvalidManifest([Problem("data", f"has no key {wanted}", f"existing keys: {keys}", source=source)])


class _Reader:
    """Turns a document into a configuration and collects every problem with its position."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._checked = _SCHEMA.check(document.value, "Config")
        self.problems: list[Problem] = []
        for problem in self._checked.problems:
            # The 2017 operator ignored unknown fields and empty accelerators.
            self._place(replace(problem, warning=problem.message in (UNKNOWN_FIELD, EMPTY)))

    def config(self) -> ControllerConfig:
        top = self._checked.value
        accelerators = {
            name: self._accelerator(("accelerators", name), fields)
            for name, fields in top.get("accelerators", {}).items()
        }
        image, path = top.get("tfImage", ""), top.get("grpcServerFilePath", "")
        if image and (fault := image_fault(image))[0]:
            self._report(("tfImage",), *fault)
        if path:
            self._absolute(path, ("grpcServerFilePath",))
        return ControllerConfig(accelerators, path, image)

    def _accelerator(self, at: Path, fields: Mapping[str, Any]) -> Accelerator:
        resource = fields.get("resource", "")
        for name, place in ((str(at[-1]), at), (resource, (*at, "resource"))):
            if name and not _RESOURCE.fullmatch(name):
                self._report(place, f"{name!r} is not a valid resource name", "write it like nvidia.com/gpu")
        volumes: list[HostVolume] = []
        for index, each in enumerate(fields.get("volumes", ())):
            place = (*at, "volumes", index)
            name = self._named(place, each, _VOLUME_NAME, "volume")
            one = HostVolume(name, each.get("hostPath", ""), each.get("mountPath", ""))
            self._absolute(one.host_path, (*place, "hostPath"))
            self._absolute(one.mount_path, (*place, "mountPath"))
            if any(other.name == one.name or other.mount_path == one.mount_path for other in volumes):
                self._report(place, "repeats the name or the mountPath of an earlier volume")
            volumes.append(one)
        variables: dict[str, str] = {}
        for index, each in enumerate(fields.get("envVars", ())):
            place = (*at, "envVars", index)
            variable, value = self._named(place, each, _VARIABLE_NAME, "environment variable"), each.get("value", "")
            if variable in variables:
                self._report((*place, "name"), f"{variable} is set twice")
            if isinstance(value, bool) or not isinstance(value, str | int | float):
                self._report((*place, "value"), f"must be a string, not {described(value)}", "put it in quotes")
            variables[variable] = str(value)
        return Accelerator(tuple(volumes), variables, resource)

    def _named(self, at: Path, fields: Mapping[str, Any], pattern: re.Pattern[str], what: str) -> str:
        name: str = fields.get("name", "")
        if not pattern.fullmatch(name):
            self._report((*at, "name"), f"{name!r} is not a valid {what} name" if name else f"the {what} needs a name")
        return name

    def _absolute(self, path: str, at: Path) -> None:
        if not path.startswith("/"):
            self._report(at, f"{path!r} must be an absolute path" if path else "a path is missing", "start it with /")
        elif ".." in path.split("/") or ":" in path:
            self._report(at, f"{path!r} contains '..' or ':', which Kubernetes rejects")

    def _report(self, at: Path, message: str, hint: str = "") -> None:
        renamed = self._checked.renamed
        written = tuple(renamed.get(at[: index + 1], part) for index, part in enumerate(at))
        self._place(Problem(path_text(written), message, hint))

    def _place(self, problem: Problem) -> None:
        line, column = self._document.position(problem.path)
        self.problems.append(replace(problem, line=line, column=column, source=self._document.source))


Use = Callable[[ControllerConfig, str], None]


class Configuration:
    """Passes each valid configuration to `use`; reports an invalid one and keeps the last valid one.

    `use` also gets the program of default parameter servers, empty for ours. `good` is False while the configuration
    that was read last is invalid.
    """

    def __init__(self, use: Use, tell: Tell) -> None:
        self._use = use
        self._tell = tell
        self.good = True

    async def first(self) -> None:
        """Wait until the current configuration has been read."""

    async def run(self) -> None:
        """Watch the configuration until cancelled."""

    def take(self, about: Object, attempt: Callable[[], Read]) -> None:
        try:
            found = attempt()
        except InvalidManifest as error:
            self.good = False
            text = "; ".join(str(problem) for problem in error.problems)
            logger.error("the configuration is invalid; keeping the last valid one: %s", text)
            self._tell(
                about, Event(INVALID, f"Invalid; the operator keeps the last valid configuration: {text}", warning=True)
            )
            return
        self.good = True
        program, warnings = _program(found.config.server_file)
        self._use(found.config, program)
        names = ", ".join(sorted(found.config.accelerators)) or "none"
        logger.info("configuration read; accelerators: %s", names)
        self._tell(about, Event(USED, f"In use for new pods; accelerators: {names}"))
        for warning in (*found.warnings, *warnings):
            logger.warning("%s", warning)
            self._tell(about, Event(ODD, str(warning), warning=True))

    def drop(self) -> None:
        self.good = True
        self._use(ControllerConfig(), "")
        logger.info("the configuration was deleted; no accelerators are configured")


class ConfigMapConfiguration(Configuration):
    """The configuration in a ConfigMap; it is empty if the ConfigMap is missing or the operator may not read it."""

    def __init__(self, use: Use, tell: Tell, client: Client, namespace: str, options: Options) -> None:
        super().__init__(use, tell)
        self._client = client
        self._place = (namespace, options.config_map)
        self._key = options.config_key
        self._reflector: Reflector[ConfigMap] = Reflector(
            client,
            CONFIG_MAPS,
            msgspec.json.Decoder(ConfigMap).decode,
            ObjectStore(on_change=self._changed),
            namespace,
            field_selector=f"metadata.name={options.config_map}",
        )

    async def first(self) -> None:
        try:
            await self._client.get(CONFIG_MAPS, *self._place)
        except Forbidden as error:
            logger.warning("cannot read the configuration %s/%s: %s", *self._place, error.message)
            return
        except KubeError:
            pass  # there is none, or the reflector keeps trying
        await self._reflector.synced.wait()

    async def run(self) -> None:
        await self._reflector.run()

    def _changed(self, old: ConfigMap | None, new: ConfigMap | None) -> None:
        if new is None:
            self.drop()
        elif old is None or old.data != new.data:
            self.take(new, lambda: read_config_map(new.data, f"ConfigMap {'/'.join(self._place)}", self._key))


class FileConfiguration(Configuration):
    """The configuration in a file, for example of a mounted ConfigMap; while the file is missing, nothing changes."""

    def __init__(self, use: Use, tell: Tell, namespace: str, options: Options) -> None:
        super().__init__(use, tell)
        self._file = pathlib.Path(options.controller_config_file)
        # A file cannot have Events, so the operator's pod gets them.
        self._about = Pod(metadata=ObjectMeta(name=socket.gethostname(), namespace=namespace))
        self._pause = options.durations.config_check.total_seconds()
        self._seen: bytes | None = None

    async def first(self) -> None:
        """Read the file. Raises ConfigError if it cannot be read."""
        try:
            self._look()
        except OSError as error:
            hint = "Mount the ConfigMap that contains it, or omit --controller-config-file."
            raise ConfigError(f"--controller-config-file {self._file}: {error.strerror}", hint) from None

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._pause)
            try:
                self._look()
            except OSError as error:
                logger.debug("%s: %s", self._file, error.strerror)

    def _look(self) -> None:
        text = self._file.read_bytes()
        if text != self._seen:
            self._seen = text
            self.take(self._about, lambda: read(text, str(self._file)))


def _program(path: str) -> tuple[str, list[Problem]]:
    """Return the program of default parameter servers, empty for ours, and the problems with it."""
    if not path:
        return "", []
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8")
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
