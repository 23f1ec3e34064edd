"""The configuration files of a model server, in protobuf text: models, batching, monitoring, TLS and sessions.

Every function takes the path of a file and raises `InvalidConfig`, which names the file and the place.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from google.protobuf import text_format
from google.protobuf.message import Message

from tfjob.serve import protos
from tfjob.serve.config import All, Batching, InvalidConfig, Latest, ModelConfig, ServerConfig, Specific

PLATFORM = "tensorflow"
TENSORFLOW = 1
"""ModelType.TENSORFLOW, which older files have instead of the platform."""
METRICS_PATH = "/monitoring/prometheus/metrics"
M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM texts of a server; with `client_verify`, clients must have a certificate of `custom_ca`."""

    server_key: str
    server_cert: str
    custom_ca: str = ""
    client_verify: bool = False


def read_models(path: Path) -> tuple[list[ModelConfig], list[str]]:
    """Return the models of a ModelServerConfig, and warnings."""
    message = _parse(path, protos.ModelServerConfig())
    try:
        return models_of(message)
    except ValueError as error:
        raise InvalidConfig(f"{path}: {error}") from None


def models_of(message: Any) -> tuple[list[ModelConfig], list[str]]:
    """Return the models of a ModelServerConfig message, and warnings. Raises ValueError if it is invalid."""
    kind = message.WhichOneof("config")
    if kind == "custom_model_config":
        raise ValueError("custom_model_config is not supported; use model_config_list")
    models: dict[str, ModelConfig] = {}
    warnings = []
    for position, config in enumerate(message.model_config_list.config):
        place = f"model_config_list.config[{position}]"
        model = _model(config, place)
        if model.name in models:
            raise ValueError(f"{place}.name: the name '{model.name}' is used twice")
        if config.HasField("logging_config"):
            warnings.append(f"{place}.logging_config has no effect in this server")
        models[model.name] = model
    return list(models.values()), warnings


def read_batching(path: Path) -> tuple[Batching, list[str]]:
    """Return the settings of BatchingParameters, with TensorFlow Serving's defaults, and warnings."""
    message = _parse(path, protos.BatchingParameters())
    for name in ("pad_variable_length_inputs", "enable_large_batch_splitting", "max_execution_batch_size"):
        value = getattr(message, name)
        if value if isinstance(value, bool) else value.value:
            raise InvalidConfig(f"{path}: {name} is not supported by this server", "Remove the line.")
    numbers = {}
    for name, default in (("max_batch_size", 1000), ("max_enqueued_batches", 10), ("num_batch_threads", 0)):
        given = message.HasField(name)
        numbers[name] = getattr(message, name).value if given else default
        if given and numbers[name] < 1:
            raise InvalidConfig(f"{path}: {name} is {numbers[name]}, and must be at least 1")
    sizes = tuple(message.allowed_batch_sizes)
    if sizes and (list(sizes) != sorted(set(sizes)) or sizes[0] < 1 or sizes[-1] != numbers["max_batch_size"]):
        raise InvalidConfig(
            f"{path}: allowed_batch_sizes is {', '.join(map(str, sizes))}",
            f"The sizes must increase, and the last one must be max_batch_size, {numbers['max_batch_size']}.",
        )
    batching = Batching(
        max_batch_size=numbers["max_batch_size"],
        max_enqueued_batches=numbers["max_enqueued_batches"],
        threads=numbers["num_batch_threads"],
        sizes=sizes,
    )
    waits = message.batch_timeout_micros.value
    ignored = (
        [f"{path}: batch_timeout_micros has no effect: this server never waits for more requests"] if waits else []
    )
    return batching, ignored


def read_monitoring(path: Path) -> str:
    """Return the path of the metrics page; empty if the page is turned off."""
    prometheus = _parse(path, protos.MonitoringConfig()).prometheus_config
    page = prometheus.path or METRICS_PATH
    if not page.startswith("/"):
        raise InvalidConfig(f"{path}: prometheus_config.path is '{page}'", "The path must start with /.")
    return page if prometheus.enable else ""


def read_tls(path: Path) -> Tls:
    message = _parse(path, protos.SSLConfig())
    for name in ("server_key", "server_cert", *(["custom_ca"] if message.client_verify else [])):
        if "-----BEGIN" not in getattr(message, name):
            raise InvalidConfig(f"{path}: {name} is not a PEM text", "Write the text of the file, not its path.")
    return Tls(message.server_key, message.server_cert, message.custom_ca, message.client_verify)


def session_config(config: ServerConfig) -> bytes:
    """Return a serialized ConfigProto from the flags about threads and from the file, which overrides them."""
    message = protos.ConfigProto()
    message.intra_op_parallelism_threads = (
        config.tensorflow_intra_op_parallelism or config.tensorflow_session_parallelism
    )
    message.inter_op_parallelism_threads = (
        config.tensorflow_inter_op_parallelism or config.tensorflow_session_parallelism
    )
    if config.tensorflow_session_config_file:
        message.MergeFrom(_parse(Path(config.tensorflow_session_config_file), protos.ConfigProto()))
    return bytes(message.SerializeToString())


def _parse(path: Path, message: M) -> M:
    try:
        return text_format.Parse(path.read_text(encoding="utf-8"), message)
    except OSError as error:
        raise InvalidConfig(f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError:
        raise InvalidConfig(f"{path} is not UTF-8 text") from None
    except text_format.ParseError as error:
        raise InvalidConfig(f"{path}:{error}") from None


def _model(config: Any, place: str) -> ModelConfig:
    for name in ("name", "base_path"):
        if not getattr(config, name):
            raise ValueError(f"{place}.{name} is missing")
    if not config.model_platform and config.model_type != TENSORFLOW:
        raise ValueError(f'{place}.model_platform is missing: write model_platform: "{PLATFORM}"')
    if config.model_platform not in ("", PLATFORM):
        raise ValueError(f"{place}.model_platform: '{config.model_platform}' is not supported; use '{PLATFORM}'")
    labels = dict(config.version_labels)
    return ModelConfig(
        config.name, Path(config.base_path).absolute(), _policy(config.model_version_policy, place), labels
    )


def _policy(policy: Any, place: str) -> Latest | All | Specific:
    match policy.WhichOneof("policy_choice"):
        case "all":
            return All()
        case "specific":
            if not policy.specific.versions:
                raise ValueError(f"{place}.model_version_policy.specific names no version")
            return Specific(tuple(sorted(set(policy.specific.versions))))
        case "latest":
            return Latest(policy.latest.num_versions or 1)
    return Latest()
