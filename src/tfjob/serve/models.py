"""Models: the versions in memory, the thread that watches their folders, and the version that answers a request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from tfjob.serve.config import Batching, Loading, ModelConfig
from tfjob.serve.errors import Code
from tfjob.serve.metrics import Metrics


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


class Models:
    """The models of a server."""

    def __init__(self, loading: Loading, batching: Batching, metrics: Metrics) -> None:
        raise NotImplementedError

    def configure(self, configs: Sequence[ModelConfig]) -> None:
        """Serve exactly these models; return when every new one was tried once. Blocks: call it in a thread.

        Raise Status if a label points to a version that is not available.
        """
        raise NotImplementedError

    def watch(self) -> None:
        """Start the thread that looks for new versions."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop the thread and unload everything."""
        raise NotImplementedError

    def statuses(self) -> dict[str, list[VersionStatus]]:
        """Return the rows of every model, newest version first."""
        raise NotImplementedError

    def not_ready(self) -> list[str]:
        """Return a sentence for each configured model that has no available version; empty if the server is ready."""
        raise NotImplementedError
