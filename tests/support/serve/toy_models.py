"""SavedModel folders without a graph, and an engine that computes in Python: for tests without TensorFlow."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from tfjob.serve import protos
from tfjob.serve.errors import Code, Status
from tfjob.serve.grpc_server import write_signature
from tfjob.serve.savedmodel import PREDICT, Signature, TensorSpec
from tfjob.serve.tensors import Array

HALF = Signature(
    "serving_default",
    PREDICT,
    {"x": TensorSpec("x:0", "DT_FLOAT", (None,))},
    {"y": TensorSpec("y:0", "DT_FLOAT", (None,)), "rows": TensorSpec("rows:0", "DT_INT64", (None,))},
)
"""Half of each number, and how many rows ran together with it."""


def write_model(folder: Path, *signatures: Signature, tags: Sequence[str] = ("serve",)) -> Path:
    """Write a SavedModel folder that has these signatures and no variables."""
    message = protos.SavedModel(saved_model_schema_version=1)
    graph = message.meta_graphs.add()
    graph.meta_info_def.tags.extend(tags)
    graph.meta_info_def.tensorflow_version = "2.21.0"
    for signature in signatures:
        write_signature(signature, graph.signature_def[signature.name])
    folder.mkdir(parents=True)
    (folder / "saved_model.pb").write_bytes(message.SerializeToString())
    return folder


class ToyEngine:
    """Computes the outputs of HALF. A negative number is an error for the whole run.

    While `gate` is closed, runs wait for it.
    """

    def __init__(self) -> None:
        self.runs: list[int] = []
        self.gate = threading.Event()
        self.gate.set()
        self.waiting = threading.Semaphore(0)
        """Counts the runs that have arrived at the gate."""
        self.is_closed = False

    def run(self, feeds: Mapping[str, Array], fetches: Sequence[str]) -> list[Array]:
        assert not self.is_closed, "a closed engine must not run"
        x = feeds["x:0"]
        self.runs.append(len(x))
        self.waiting.release()
        assert self.gate.wait(60)
        if (x < 0).any():
            raise Status(Code.INVALID_ARGUMENT, "negative")
        outputs: dict[str, Array] = {"y:0": x / np.float32(2), "rows:0": np.full(len(x), len(x))}
        return [outputs[name] for name in fetches]

    def close(self) -> None:
        assert not self.is_closed
        self.is_closed = True


class ToyLoader:
    """Loads toy engines and remembers them by folder; `fails` may raise Status for a folder."""

    def __init__(self, fails: Callable[[Path], None] = lambda _: None) -> None:
        self.fails = fails
        self.engines: dict[str, ToyEngine] = {}
        self.attempts: list[str] = []

    def __call__(self, folder: Path, _tags: Sequence[str], _config: bytes) -> ToyEngine:
        self.attempts.append(folder.name)
        self.fails(folder)
        return self.engines.setdefault(folder.name, ToyEngine())
