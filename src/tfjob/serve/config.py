"""The settings of a model server: the flags of `tensorflow_model_server`, as one `ServerConfig`.

`parse(arguments, environ)` returns the settings and warnings, or raises `InvalidConfig`. To support a flag, add a field
to `ServerConfig`: its name, type and default are those of the flag. `IGNORED` and `UNSUPPORTED` list the other flags.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_type_hints

from tfjob.api.suggest import did_you_mean
from tfjob.errors import UserError

ALL_ADDRESSES = ""
"""The host of a server that listens on every address of its machine."""
IN_POD = "KUBERNETES_SERVICE_HOST"
"""The environment variable that Kubernetes sets in every container."""
LARGEST_PORT = 65535
LARGEST_NUMBER = (1 << 31) - 1


class InvalidConfig(UserError):
    """A flag or a configuration file is invalid."""


@dataclass(frozen=True, slots=True)
class Latest:
    """The policy to serve the versions with the highest numbers."""

    count: int = 1


@dataclass(frozen=True, slots=True)
class All:
    """The policy to serve every version."""


@dataclass(frozen=True, slots=True)
class Specific:
    """The policy to serve the versions with these numbers."""

    versions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """A model by name: the folder of its versions, which of them to serve, and names of versions."""

    name: str
    base_path: Path
    policy: Latest | All | Specific = Latest()
    labels: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Batching:
    """How requests share runs; `sizes` are the only batch sizes that run, if there are any."""

    enabled: bool = True
    max_batch_size: int = 128
    max_enqueued_batches: int = 1000
    threads: int = 0
    sizes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Loading:
    """How versions are found and loaded."""

    tags: tuple[str, ...] = ("serve",)
    session_config: bytes = b""
    poll_seconds: float = 1.0
    retries: int = 5
    retry_seconds: float = 60.0
    warmup: bool = True
    warmup_iterations: int = 1
    labels_of_unavailable: bool = False
    per_model_batching: bool = False


def flag(default: Any, description: str) -> Any:
    return field(default=default, metadata={"description": description})


@dataclass(frozen=True, kw_only=True)
class ServerConfig:
    """All flags that have an effect."""

    host: str = flag("", "Address to listen on (default: loopback; in a pod, all addresses).")
    port: int = flag(8500, "Port for gRPC; 0 turns it off.")
    grpc_socket_path: str = flag("", "Path of a UNIX socket for gRPC.")
    rest_api_port: int = flag(0, "Port for REST; 0 turns it off.")
    rest_api_timeout_in_ms: int = flag(30000, "Time limit of a REST request in milliseconds; 0 means none.")
    rest_api_enable_cors_support: bool = flag(False, "Send CORS headers.")
    model_name: str = flag("default", "Name of the model (without --model_config_file).")
    model_base_path: str = flag("", "Folder of the model, which contains a folder per version.")
    model_config_file: str = flag("", "File with the models to serve, a ModelServerConfig as text.")
    model_config_file_poll_wait_seconds: int = flag(0, "Seconds between reads of --model_config_file; 0 reads it once.")
    file_system_poll_wait_seconds: int = flag(1, "Seconds between searches for new versions; 0 searches once.")
    max_num_load_retries: int = flag(5, "Number of retries if a version does not load.")
    load_retry_interval_micros: int = flag(60_000_000, "Microseconds between these retries.")
    enable_batching: bool = flag(True, "Run requests that wait for the same model together.")
    batching_parameters_file: str = flag("", "File with BatchingParameters as text.")
    enable_per_model_batching_parameters: bool = flag(False, "Read batching_params.pbtxt in the folders of versions.")
    allow_version_labels_for_unavailable_models: bool = flag(
        False, "Let a new label point to a version that is not available yet."
    )
    tensorflow_session_parallelism: int = flag(0, "Number of threads within and between operations; 0 is automatic.")
    tensorflow_intra_op_parallelism: int = flag(0, "Number of threads within an operation; 0 is automatic.")
    tensorflow_inter_op_parallelism: int = flag(0, "Number of operations that run at once; 0 is automatic.")
    tensorflow_session_config_file: str = flag("", "File with a ConfigProto as text.")
    saved_model_tags: str = flag("serve", "Comma-separated tags of the graph to load.")
    enable_model_warmup: bool = flag(True, "Run the requests in assets.extra before a version serves.")
    num_request_iterations_for_warmup: int = flag(0, "Number of runs of each of these requests; 0 is one run.")
    monitoring_config_file: str = flag("", "File with a MonitoringConfig as text.")
    ssl_config_file: str = flag("", "File with an SSLConfig as text; it applies to gRPC and REST.")
    grpc_channel_arguments: str = flag("", "Comma-separated arguments of the gRPC server, such as a=1,b=x.")
    grpc_max_threads: int = flag(0, "Number of threads for gRPC; 0 is four per core.")
    enable_serialization_as_tensor_content: bool = flag(False, "Send tensors as tensor_content.")
    enable_signature_method_name_check: bool = flag(
        False, "Let Classify and Regress run only signatures with their method name."
    )

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(tag.strip() for tag in self.saved_model_tags.split(",") if tag.strip())

    def loading(self, session_config: bytes) -> Loading:
        return Loading(
            tags=self.tags,
            session_config=session_config,
            poll_seconds=self.file_system_poll_wait_seconds,
            retries=self.max_num_load_retries,
            retry_seconds=self.load_retry_interval_micros / 1_000_000,
            warmup=self.enable_model_warmup,
            warmup_iterations=self.num_request_iterations_for_warmup or 1,
            labels_of_unavailable=self.allow_version_labels_for_unavailable_models,
            per_model_batching=self.enable_per_model_batching_parameters,
        )

    @property
    def channel_arguments(self) -> tuple[tuple[str, int | str], ...]:
        pairs = (pair.split("=", 1) for pair in self.grpc_channel_arguments.split(",") if pair)
        return tuple((name, int(value) if re.fullmatch(r"-?\d+", value) else value) for name, value in pairs)

    @property
    def model(self) -> ModelConfig:
        """The model of the flags, if no file names the models."""
        return ModelConfig(self.model_name, Path(self.model_base_path).absolute())


IGNORED = {
    "rest_api_num_threads": int,
    "num_load_threads": int,
    "num_unload_threads": int,
    "flush_filesystem_caches": bool,
    "remove_unused_fields_from_bundle_metagraph": bool,
    "enable_profiler": bool,
    "skip_initialize_tpu": bool,
    "enable_grpc_healthcheck_service": bool,
    "thread_pool_factory_config_file": str,
}
"""Flags that are accepted and have no effect, with the types of their values."""
SILENT = ("enable_grpc_healthcheck_service",)
"""Ignored flags without a warning: what they turn on is always on."""
UNSUPPORTED = {
    "platform_config_file": str,
    "use_alts_credentials": bool,
    "per_process_gpu_memory_fraction": float,
    "mixed_precision": str,
    "xla_cpu_compilation_enabled": bool,
    "xla_gpu_compilation_enabled": bool,
    "prefer_tflite_model": bool,
    "num_tflite_pools": int,
    "num_tflite_interpreters_per_pool": int,
}
"""Flags that are rejected unless their value turns the feature off, with the types of their values."""
QUESTIONS = {"version": bool, "help": bool}
"""Flags that print something instead of starting the server."""
BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True)
class Parsed:
    """The result of `parse`: the settings, warnings, and whether to print the version or the help instead."""

    config: ServerConfig
    warnings: Sequence[str] = ()
    question: str = ""


def parse(arguments: Sequence[str], environ: Mapping[str, str]) -> Parsed:
    """Return the settings from command line arguments: `--name=value`, `--name value`, or `--name` of a boolean."""
    types = {**_types(), **IGNORED, **UNSUPPORTED, **QUESTIONS}
    values: dict[str, Any] = {}
    warnings = []
    for name, text in _pairs(arguments, types):
        value = _value(name, text, types[name])
        if name in QUESTIONS:
            if value:
                return Parsed(ServerConfig(), question=name)
        elif name in UNSUPPORTED:
            if value:
                raise InvalidConfig(f"the flag --{name} is not supported by this server", "Remove the flag.")
        elif name not in IGNORED:
            values[name] = value
        elif name not in SILENT:
            warnings.append(f"--{name} has no effect in this server")
    if values.get("batching_parameters_file") and not values.get("enable_batching"):  # as in TensorFlow Serving
        raise InvalidConfig("--batching_parameters_file is set without --enable_batching", "Add --enable_batching.")
    values.setdefault("host", ALL_ADDRESSES if environ.get(IN_POD) else "127.0.0.1")
    config = ServerConfig(**values)
    _check(config)
    if config.model_config_file and values.keys() & {"model_name", "model_base_path"}:
        warnings.append("--model_name and --model_base_path have no effect together with --model_config_file")
    return Parsed(config, warnings)


def usage() -> str:
    """Return the text of `--help`."""
    lines = ["Serve TensorFlow models over gRPC and REST, with the flags of tensorflow_model_server.", ""]
    for one in dataclasses.fields(ServerConfig):
        default = f" (default {str(one.default).lower()})" if one.default != "" else ""
        lines += [f"--{one.name}={_types()[one.name].__name__}{default}", f"    {one.metadata['description']}"]
    return "\n".join(lines) + "\n"


def _types() -> dict[str, type]:
    return get_type_hints(ServerConfig)


def _pairs(arguments: Sequence[str], types: Mapping[str, type]) -> list[tuple[str, str]]:
    """Return names and values as text; an empty text is that of a flag without a value."""
    pairs = []
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if not argument.startswith("--"):
            raise InvalidConfig(f"unexpected argument '{argument}'", "Write flags as --name=value.")
        name, equals, text = argument[2:].partition("=")
        if name not in types:
            raise InvalidConfig(f"unknown flag --{name}", _hint(name, types))
        if not equals:
            is_boolean = types[name] is bool
            if is_boolean and (not rest or rest[0].lower() not in BOOLEANS):
                text = "true"
            elif rest and (is_boolean or not rest[0].startswith("--")):
                text = rest.pop(0)
            else:
                raise InvalidConfig(f"the flag --{name} has no value", f"Write --{name}=VALUE.")
        pairs.append((name, text))
    return pairs


def _hint(name: str, types: Mapping[str, type]) -> str:
    near = did_you_mean(name.replace("-", "_"), types).replace("mean ", "mean --").capitalize()
    return near or "--help lists the flags."


def _value(name: str, text: str, kind: type) -> Any:
    try:
        return BOOLEANS[text.lower()] if kind is bool else kind(text)
    except (KeyError, ValueError):
        wanted = {bool: "true or false", int: "a whole number"}.get(kind, "a number")
        raise InvalidConfig(f"the flag --{name} has the invalid value '{text}'", f"Write {wanted}.") from None


def _check(config: ServerConfig) -> None:
    """Raise InvalidConfig if flags contradict each other or a number is out of range."""
    for one in dataclasses.fields(config):
        value = getattr(config, one.name)
        largest = LARGEST_PORT if one.name in ("port", "rest_api_port") else LARGEST_NUMBER
        if isinstance(value, int) and not 0 <= value <= largest:
            raise InvalidConfig(
                f"the flag --{one.name} has the invalid value '{value}'", f"Write a number from 0 to {largest}."
            )
    if not config.port and not config.grpc_socket_path:
        raise InvalidConfig("--port is 0 and --grpc_socket_path is not set", "gRPC needs one of them.")
    if config.port and config.port == config.rest_api_port:
        raise InvalidConfig(f"--port and --rest_api_port are both {config.port}", "Choose two ports.")
    if not config.model_config_file:
        if not config.model_base_path:
            raise InvalidConfig("no model to serve", "Set --model_base_path=FOLDER or --model_config_file=FILE.")
        if not config.model_name:
            raise InvalidConfig("the flag --model_name is empty", "Set it to the name that clients send.")
    if config.tensorflow_session_parallelism and (
        config.tensorflow_intra_op_parallelism or config.tensorflow_inter_op_parallelism
    ):
        raise InvalidConfig(
            "--tensorflow_session_parallelism contradicts --tensorflow_intra_op_parallelism and"
            " --tensorflow_inter_op_parallelism",
            "Remove the first flag, or the other two.",
        )
    if any("=" not in pair for pair in config.grpc_channel_arguments.split(",") if pair):
        raise InvalidConfig(
            f"the flag --grpc_channel_arguments has the invalid value '{config.grpc_channel_arguments}'",
            "Write name=value,name=value.",
        )
    if not config.tags:
        raise InvalidConfig("the flag --saved_model_tags is empty", "Models are usually saved with the tag serve.")
