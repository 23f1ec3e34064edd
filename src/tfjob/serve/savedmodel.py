"""What a SavedModel folder contains, read without TensorFlow: signatures, size, and whether it is complete."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from tfjob.serve import protos

PREDICT = "tensorflow/serving/predict"
CLASSIFY = "tensorflow/serving/classify"
REGRESS = "tensorflow/serving/regress"
DEFAULT_SIGNATURE = "serving_default"
"""The signature of a request that names none."""
INIT = "__saved_model_init_op"
"""A signature that only the loader uses."""
GRAPH = "saved_model.pb"
INDEX = "variables/variables.index"
VARIABLES = (b"VarHandleOp", b"VariableV2")
"""Operations of graphs that need variables; TensorFlow 1 writes no files for a graph without any."""
SHARD = re.compile(r"variables\.data-\d{5}-of-(\d{5})")


class InvalidModel(Exception):
    """A folder that is not a complete SavedModel; the message names the folder and what is missing."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """An input or output: the tensor's name in the graph, its type (`DT_FLOAT`), and its shape.

    An unknown size is None, and so is a shape of unknown rank.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...] | None


@dataclass(frozen=True, slots=True)
class Signature:
    """A function of a model: its inputs and outputs by alias. `defaults` are serialized TensorProtos."""

    name: str
    method_name: str
    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]
    defaults: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SavedModel:
    """A complete SavedModel; `size` is that of its files in bytes."""

    folder: Path
    tags: tuple[str, ...]
    tensorflow_version: str
    signatures: Mapping[str, Signature]
    size: int


def read(folder: Path, tags: Sequence[str] = ("serve",)) -> SavedModel:
    """Read the meta graph that has exactly these tags; raise InvalidModel if the folder is not complete."""
    if missing := missing_files(folder):
        raise InvalidModel(f"{folder} is not a complete SavedModel: {', '.join(missing)} is missing.")
    try:
        content = protos.SavedModel.FromString((folder / GRAPH).read_bytes())
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    except DecodeError:
        raise InvalidModel(f"{folder / GRAPH} is not a SavedModel, or its end is missing.") from None
    except OSError as error:
        raise InvalidModel(f"{folder} cannot be read: {error.strerror}.") from None
    graphs = [graph for graph in content.meta_graphs if set(graph.meta_info_def.tags) == set(tags)]
    if not graphs:
        found = " or ".join(",".join(graph.meta_info_def.tags) or "no tags" for graph in content.meta_graphs)
        raise InvalidModel(f"{folder} has no graph with the tags {','.join(tags)}; it has {found or 'no graph'}.")
    graph = graphs[0]
    return SavedModel(
        folder=folder,
        tags=tuple(tags),
        tensorflow_version=graph.meta_info_def.tensorflow_version,
        signatures={name: signature_of(name, graph.signature_def[name]) for name in sorted(graph.signature_def)},
        size=size,
    )


def missing_files(folder: Path) -> list[str]:
    """Return the files that a complete SavedModel would have and that the folder does not have."""
    graph = folder / GRAPH
    if not (folder / "variables").is_dir():
        if not graph.is_file():
            return [GRAPH]
        content = graph.read_bytes()
        return [INDEX] if any(operation in content for operation in VARIABLES) else []
    missing = [name for name in (GRAPH, INDEX) if not (folder / name).is_file()]
    shards = {path.name for path in (folder / "variables").glob("variables.data-*")}
    count = max((int(found[1]) for name in shards if (found := SHARD.fullmatch(name))), default=1)
    expected = (f"variables.data-{number:05}-of-{count:05}" for number in range(count))
    return missing + [f"variables/{name}" for name in expected if name not in shards]


def signature_of(name: str, definition: Any) -> Signature:
    return Signature(
        name=name,
        method_name=definition.method_name,
        inputs={alias: _spec(definition.inputs[alias]) for alias in sorted(definition.inputs)},
        outputs={alias: _spec(definition.outputs[alias]) for alias in sorted(definition.outputs)},
        defaults={alias: value.SerializeToString() for alias, value in definition.defaults.items()},
    )


def _spec(info: Any) -> TensorSpec:
    shape = info.tensor_shape
    sizes = None if shape.unknown_rank else tuple(None if dim.size < 0 else dim.size for dim in shape.dim)
    return TensorSpec(info.name, protos.DATA_TYPE_NAMES.get(info.dtype, str(info.dtype)), sizes)
