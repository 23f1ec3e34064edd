"""The operator's configuration, as the 2017 TfJob operator read it: accelerators, and the parameter server's program.

    grpcServerFilePath: /opt/server.py     # a program for default parameter servers, in place of ours
    tfImage: tensorflow/tensorflow:2.21.0  # an image for them, where a job names none
    accelerators:
      alpha.kubernetes.io/nvidia-gpu:      # for containers with this resource in limits or requests
        resource: nvidia.com/gpu           # is requested instead
        volumes:
          - {name: lib, hostPath: /usr/lib/nvidia-384, mountPath: /usr/lib/nvidia}
        envVars:
          - {name: LD_LIBRARY_PATH, value: /usr/lib/nvidia}

Field names count in any case. Unknown fields are a warning: the 2017 operator ignored them.

`ConfigMapWatch` and `FileWatch` follow the configuration and keep the last valid one. A change applies to pods that are
made from then on; existing pods stay as they are.
"""

from __future__ import annotations

import asyncio
import logging
import pathlib
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NoReturn

import msgspec

from tfjob.api.image_reference import image_fault
from tfjob.api.objects import ConfigMap, Object, ObjectMeta, Pod
from tfjob.api.problems import InvalidManifest, Path, Problem, errors, path_text
from tfjob.api.resources import CONFIG_MAPS
from tfjob.api.suggest import did_you_mean, one_of
from tfjob.api.text.reader import Document, described, parse
from tfjob.controller.actions import Event
from tfjob.kube.access.errors import ConfigError, Forbidden, KubeError
from tfjob.kube.cache.reflector import Reflector
from tfjob.kube.cache.store import ObjectStore
from tfjob.kube.client.client import Client
from tfjob.operator.options import CONFIG_KEY
from tfjob.plan.build.accelerators import Accelerator, HostVolume

KEYS = (CONFIG_KEY, "controller-config-file.yaml")
"""Of the ConfigMap: the documents' and the one of the releases after them."""
_TOP = ("accelerators", "grpcServerFilePath", "tfImage")
_ACCELERATOR = ("resource", "volumes", "envVars")
_VOLUME = ("name", "hostPath", "mountPath")
_VARIABLE = ("name", "value")
_RESOURCE = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_VOLUME_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_VARIABLE_NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
logger = logging.getLogger("tfjob.operator")
DOCUMENTED_SERVER_FILE = "/opt/mlkube/grpc_tensorflow_server/grpc_tensorflow_server.py"
"""Where the first operator's image had its program: whoever names it wants the standard one, which is ours now."""
PROGRAM_BYTES = 900_000
"""A ConfigMap holds a MiB."""
INVALID, ODD, USED = "InvalidControllerConfig", "OddControllerConfig", "ControllerConfigUsed"
Tell = Callable[[Object, Event], None]


@dataclass(frozen=True)
class ControllerConfig:
    """What the operator was told beside its command line."""

    accelerators: Mapping[str, Accelerator] = field(default_factory=dict)
    server_file: str = ""
    tf_image: str = ""


@dataclass(frozen=True)
class Read:
    """A configuration that can be used, and what is odd about how it was written."""

    config: ControllerConfig
    warnings: list[Problem]


def read_config_map(data: Mapping[str, str], source: str, wanted: str = KEYS[0]) -> Read:
    """The configuration in a ConfigMap, at a key of that name before all others. Raises InvalidManifest."""
    key, warnings = _chosen_key(data, source, wanted)
    found = read(data[key], f"{source} {key}", wanted)
    return Read(found.config, [*warnings, *found.warnings])


def read(text: str | bytes, source: str, wanted: str = KEYS[0]) -> Read:
    """The configuration in a text; also in one that is the whole ConfigMap. Raises InvalidManifest."""
    if not text.strip():
        return Read(ControllerConfig(), [])
    parsed = parse(text, source)
    if parsed.problems:
        raise InvalidManifest(parsed.problems)
    if len(parsed.documents) != 1:
        raise InvalidManifest([Problem("", "there must be one document in it", source=source)])
    document = parsed.documents[0]
    if document.value.get("kind") == "ConfigMap" and isinstance(document.value.get("data"), dict):
        inner = read_config_map({key: str(value) for key, value in document.value["data"].items()}, source, wanted)
        hint = "apply the document with kubectl instead of making a ConfigMap from its file"
        note = Problem("", "the value is itself a ConfigMap, its data is used", hint, source=source, warning=True)
        return Read(inner.config, [note, *inner.warnings])
    reader = _Reader(document)
    config = reader.config()
    if errors(reader.problems):
        raise InvalidManifest(errors(reader.problems))
    return Read(config, reader.problems)


def _chosen_key(data: Mapping[str, str], source: str, wanted: str) -> tuple[str, list[Problem]]:
    known = [key for key in dict.fromkeys((wanted, *KEYS)) if key in data]
    if len(known) > 1:
        return known[0], [Problem("data", f"{known[0]} is used, {known[1]} is not", source=source, warning=True)]
    if known:
        return known[0], []
    if len(data) == 1:
        key = next(iter(data))
        return key, [Problem("data", f"{key} is read as {wanted}", source=source, warning=True)]
    keys = ", ".join(sorted(data)) or "none"
    raise InvalidManifest([Problem("data", f"there is no key {wanted}", f"its keys: {keys}", source=source)])


class _Reader:
    """Turns a document into a configuration and notes every fault with its place."""

    def __init__(self, document: Document) -> None:
        self.problems: list[Problem] = []
        self._document = document

    def config(self) -> ControllerConfig:
        top = self._fields(self._document.value, (), _TOP)
        found = self._mapping(top.get("accelerators"), ("accelerators",))
        accelerators = {name: self._accelerator(name, value) for name, value in found.items()}
        image = self._text(top, "tfImage", ())
        if image and (fault := image_fault(image))[0]:
            self._report(("tfImage",), *fault)
        path = self._text(top, "grpcServerFilePath", ())
        if path:
            self._absolute(path, ("grpcServerFilePath",))
        return ControllerConfig(accelerators, path, image)

    def _accelerator(self, name: str, value: Any) -> Accelerator:
        at: Path = ("accelerators", name)
        if not _RESOURCE.fullmatch(name):
            self._report(at, f"{name!r} is no name of a resource", "write it like nvidia.com/gpu")
        fields = self._fields(self._mapping(value, at), at, _ACCELERATOR)
        resource = self._text(fields, "resource", at)
        if resource and not _RESOURCE.fullmatch(resource):
            self._report((*at, "resource"), f"{resource!r} is no name of a resource", "write it like nvidia.com/gpu")
        volumes = [self._volume(each, place) for each, place in self._items(fields, "volumes", at, _VOLUME)]
        for index, one in enumerate(volumes):
            if any(other.name == one.name or other.mount_path == one.mount_path for other in volumes[:index]):
                self._report((*at, "volumes", index), "has the name or the mountPath of one before it")
        variables: dict[str, str] = {}
        for each, place in self._items(fields, "envVars", at, _VARIABLE):
            variable = self._named(each, place, _VARIABLE_NAME, "variable")
            if variable in variables:
                self._report((*place, "name"), f"{variable} is set twice")
            variables[variable] = self._text(each, "value", place)
        return Accelerator(tuple(volumes), variables, resource)

    def _volume(self, fields: Mapping[str, Any], at: Path) -> HostVolume:
        name = self._named(fields, at, _VOLUME_NAME, "volume")
        paths = []
        for key in ("hostPath", "mountPath"):
            path = self._text(fields, key, at)
            self._absolute(path, (*at, key))
            paths.append(path)
        return HostVolume(name, *paths)

    def _named(self, fields: Mapping[str, Any], at: Path, pattern: re.Pattern[str], what: str) -> str:
        name = self._text(fields, "name", at)
        if not pattern.fullmatch(name):
            self._report((*at, "name"), f"{name!r} is no name of a {what}" if name else f"the {what} needs a name")
        return name

    def _absolute(self, path: str, at: Path) -> None:
        if not path.startswith("/"):
            self._report(at, f"{path!r} must be an absolute path" if path else "a path is missing", "begin it with /")
        elif ".." in path.split("/") or ":" in path:
            self._report(at, f"{path!r} holds '..' or ':', which Kubernetes refuses")

    def _items(
        self, fields: Mapping[str, Any], key: str, at: Path, known: tuple[str, ...]
    ) -> Iterator[tuple[dict[str, Any], Path]]:
        value = fields.get(key)
        if value is not None and not isinstance(value, list):
            self._report((*at, key), f"must be a list, not {described(value)}", "begin each entry with '- '")
            return
        for index, each in enumerate(value or ()):
            place = (*at, key, index)
            yield self._fields(self._mapping(each, place), place, known), place

    def _text(self, fields: Mapping[str, Any], key: str, at: Path) -> str:
        value = fields.get(key)
        if isinstance(value, str):
            return value
        if isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
        if value is not None:
            self._report((*at, key), f"must be a text, not {described(value)}", "put it in quotes")
        return ""

    def _mapping(self, value: Any, at: Path) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        if value is not None:
            self._report(at, f"must be a mapping, not {described(value)}", "indent its fields below it")
        return {}

    def _fields(self, value: Mapping[str, Any], at: Path, known: tuple[str, ...]) -> dict[str, Any]:
        """The fields under their proper spelling."""
        spelt = {name.lower(): name for name in known}
        fields: dict[str, Any] = {}
        for key, each in value.items():
            name = spelt.get(key.lower())
            if name is None:
                hint = did_you_mean(key, known) or f"known here: {one_of(known)}"
                self._report((*at, key), "is not known and not used", hint, warning=True)
            elif name in fields:
                self._report((*at, key), f"is a second {name}")
            else:
                fields[name] = each
        return fields

    def _report(self, at: Path, message: str, hint: str = "", *, warning: bool = False) -> None:
        at = self._as_written(at)
        line, column = self._document.position(at)
        source = self._document.source
        self.problems.append(Problem(path_text(at), message, hint, line, column, source, warning))

    def _as_written(self, at: Path) -> Path:
        """A path in the document's own spelling."""
        value: Any = self._document.value
        parts: list[str | int] = []
        for part in at:
            if isinstance(value, dict):
                if part not in value:
                    part = next((key for key in value if str(key).lower() == str(part).lower()), part)
                value = value.get(part)
            elif isinstance(value, list) and isinstance(part, int):
                value = value[part]
            parts.append(part)
        return tuple(parts)


Use = Callable[[ControllerConfig, str], None]


class Configuration:
    """What is used now: each good configuration is passed on, a broken one changes nothing and is complained about.

    `use` gets the configuration and the program that it names for default parameter servers, if any. `good` is false
    while what was read last is broken.
    """

    def __init__(self, use: Use, tell: Tell) -> None:
        self._use = use
        self._tell = tell
        self.good = True

    def take(self, about: Object, attempt: Callable[[], Read]) -> None:
        """Uses what `attempt` reads, if it can be used."""
        try:
            found = attempt()
        except InvalidManifest as error:
            self.good = False
            text = "; ".join(str(problem) for problem in error.problems)
            logger.error("the configuration is not used, the last good one is kept: %s", text)
            self._tell(about, Event(INVALID, f"Not used, the last good one is kept: {text}", warning=True))
            return
        self.good = True
        program, warnings = _program(found.config.server_file)
        self._use(found.config, program)
        names = ", ".join(sorted(found.config.accelerators)) or "none"
        logger.info("configuration read; accelerators: %s", names)
        self._tell(about, Event(USED, f"Used for new pods; accelerators: {names}"))
        for warning in (*found.warnings, *warnings):
            logger.warning("%s", warning)
            self._tell(about, Event(ODD, str(warning), warning=True))

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
            ObjectStore(on_change=self._changed),
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

    def __init__(self, file: pathlib.Path, namespace: str, configuration: Configuration, pause: timedelta) -> None:
        self._file = file
        # A file has no Events: those about it are the operator's own.
        self._about = Pod(metadata=ObjectMeta(name=socket.gethostname(), namespace=namespace))
        self._configuration = configuration
        self._pause = pause.total_seconds()
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
            await asyncio.sleep(self._pause)
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
