"""What a server is asked to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Latest:
    """Serve the versions with the highest numbers."""

    count: int = 1


@dataclass(frozen=True, slots=True)
class All:
    """Serve every version."""


@dataclass(frozen=True, slots=True)
class Specific:
    """Serve the versions with these numbers."""

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
