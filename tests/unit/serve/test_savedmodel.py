"""What is read of a SavedModel folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.serve.toy_models import HALF, write_model
from tfjob.serve import protos, tensors
from tfjob.serve.savedmodel import PREDICT, InvalidModel, Signature, TensorSpec, missing_files, read


def test_signatures_tags_and_size_are_read(tmp_path: Path) -> None:
    default = protos.TensorProto(dtype=1, float_val=[b"\0\0\x80?"]).SerializeToString()
    other = Signature(
        "other",
        PREDICT,
        {"a": TensorSpec("a:0", "DT_STRING", None), "b": TensorSpec("b:0", "DT_FLOAT", ())},
        {"c": TensorSpec("c:0", "DT_INT64", (None, 3))},
        {"b": default},
    )
    model = read(write_model(tmp_path / "1", HALF, other))
    assert model.signatures == {"serving_default": HALF, "other": other}
    assert model.tags == ("serve",)
    assert model.tensorflow_version == "2.21.0"
    assert model.size == (tmp_path / "1/saved_model.pb").stat().st_size
    assert tensors.to_array(protos.TensorProto.FromString(model.signatures["other"].defaults["b"])) == 1.0


def test_a_graph_is_chosen_by_its_tags(tmp_path: Path) -> None:
    write_model(tmp_path / "1", HALF, tags=("serve", "gpu"))
    assert read(tmp_path / "1", ("gpu", "serve")).signatures
    with pytest.raises(InvalidModel, match="tags serve; it has serve,gpu"):
        read(tmp_path / "1")


def test_a_folder_without_a_graph_is_incomplete(tmp_path: Path) -> None:
    assert missing_files(tmp_path) == ["saved_model.pb"]
    with pytest.raises(InvalidModel, match=r"saved_model.pb is missing"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("files", "missing"),
    [
        (["variables.index", "variables.data-00000-of-00001"], []),
        (["variables.index"], ["variables/variables.data-00000-of-00001"]),
        (["variables.data-00000-of-00001"], ["variables/variables.index"]),
        (
            ["variables.index", "variables.data-00001-of-00003"],
            ["variables/variables.data-00000-of-00003", "variables/variables.data-00002-of-00003"],
        ),
    ],
)
def test_every_shard_of_the_variables_must_be_there(tmp_path: Path, files: list[str], missing: list[str]) -> None:
    write_model(tmp_path / "1", HALF)
    (tmp_path / "1/variables").mkdir()
    for name in files:
        (tmp_path / "1/variables" / name).touch()
    assert missing_files(tmp_path / "1") == missing


def test_a_graph_with_variables_needs_their_files(tmp_path: Path) -> None:
    graph = write_model(tmp_path / "1", HALF) / "saved_model.pb"
    assert missing_files(tmp_path / "1") == []
    graph.write_bytes(graph.read_bytes() + protos.SavedModel(meta_graphs=[]).SerializeToString() + b"VarHandleOp")
    assert missing_files(tmp_path / "1") == ["variables/variables.index"]


def test_a_damaged_graph_is_reported(tmp_path: Path) -> None:
    graph = write_model(tmp_path / "1", HALF) / "saved_model.pb"
    graph.write_bytes(graph.read_bytes()[:-5])
    with pytest.raises(InvalidModel, match="not a SavedModel"):
        read(tmp_path / "1")
