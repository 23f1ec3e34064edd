"""SavedModels without a graph that TensorFlow could run: what their signatures say, for tests that only read them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tfjob.serve import protos
from tfjob.serve.savedmodel import PREDICT, Signature, TensorSpec

Shape = tuple[int | None, ...] | None


def signature(
    inputs: Mapping[str, tuple[str, Shape]],
    outputs: Mapping[str, tuple[str, Shape]],
    name: str = "serving_default",
    method: str = PREDICT,
) -> Signature:
    """Return a signature; inputs and outputs are (type, shape) by name."""
    given, returned = (
        {alias: TensorSpec(f"{alias}:0", f"DT_{kind}", shape) for alias, (kind, shape) in side.items()}
        for side in (inputs, outputs)
    )
    return Signature(name, method, given, returned)


DIGITS = signature(
    {"images": ("UINT8", (None, 28, 28))}, {"digits": ("INT64", (None,)), "probabilities": ("FLOAT", (None, 10))}
)


def write_saved_model(folder: Path, *signatures: Signature, step: int | None = None) -> Path:
    """Write the files of a complete SavedModel with these signatures."""
    content = protos.SavedModel()
    graph = content.meta_graphs.add()
    graph.meta_info_def.tags.append("serve")
    graph.meta_info_def.tensorflow_version = "2.21.0"
    for one in signatures or (DIGITS,):
        definition = graph.signature_def[one.name]
        definition.method_name = one.method_name
        for specs, infos in ((one.inputs, definition.inputs), (one.outputs, definition.outputs)):
            for alias, spec in specs.items():
                info = infos[alias]
                info.name, info.dtype = spec.name, protos.DATA_TYPES[spec.dtype]
                info.tensor_shape.unknown_rank = spec.shape is None
                for size in spec.shape or ():
                    info.tensor_shape.dim.add().size = -1 if size is None else size
    (folder / "variables").mkdir(parents=True)
    (folder / "saved_model.pb").write_bytes(content.SerializeToString())
    (folder / "variables" / "variables.index").write_bytes(b"index")
    (folder / "variables" / "variables.data-00000-of-00001").write_bytes(b"data")
    if step is not None:
        (folder / "assets.extra").mkdir()
        (folder / "assets.extra" / "tfjob.json").write_text(json.dumps({"step": step}))
    return folder
