"""The warm-up of a version."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.serve.toy_models import HALF, ToyEngine, write_model
from tfjob.serve import protos, savedmodel, warmup
from tfjob.serve.errors import Code, Status
from tfjob.serve.savedmodel import CLASSIFY, PREDICT, REGRESS, Signature, TensorSpec

EXAMPLES = {"inputs": TensorSpec("x:0", "DT_STRING", (None,))}
CLASSIFIER = Signature("classify", CLASSIFY, EXAMPLES, {"scores": TensorSpec("s:0", "DT_FLOAT", (None, 2))})
REGRESSOR = Signature("regress", REGRESS, EXAMPLES, {"outputs": TensorSpec("o:0", "DT_FLOAT", (None,))})
TEXT = Signature("text", PREDICT, {"x": TensorSpec("x:0", "DT_STRING", (2, None))}, HALF.outputs)
INPUT: dict[str, Any] = {"example_list": {"examples": [{}, {}]}}


class Recorder(ToyEngine):
    """Remembers what it runs."""

    def __init__(self, error: Status | None = None) -> None:
        super().__init__()
        self.error = error
        self.feeds: list[Any] = []

    def run(self, feeds: Any, fetches: Sequence[str]) -> list[Any]:
        self.feeds.append(feeds["x:0"])
        if self.error is not None:
            raise self.error
        return [np.zeros(1)] * len(fetches)


def predict_log(number: float) -> Any:
    request = protos.plain(protos.PredictRequest)()
    request.model_spec.name = "another name"
    tensor = request.inputs["x"]
    tensor.dtype = 1
    tensor.tensor_shape.dim.add().size = 1
    tensor.float_val.append(number)
    return protos.PredictionLog(predict_log={"request": protos.PredictRequest.FromString(request.SerializeToString())})


def log(kind: str, **request: Any) -> Any:
    return protos.PredictionLog(**{kind: {"request": request}})


def write_records(folder: Path, *logs: Any) -> Path:
    """Write a TFRecord file; its checksums are zeros, because the reader does not compare them."""
    file = folder / warmup.FILE
    file.parent.mkdir(exist_ok=True)
    records = [one.SerializeToString() for one in logs]
    file.write_bytes(b"".join(len(one).to_bytes(8, "little") + bytes(4) + one + bytes(4) for one in records))
    return file


def model_in(folder: Path, *signatures: Signature) -> savedmodel.SavedModel:
    return savedmodel.read(write_model(folder, *signatures))


def test_every_prediction_runs_once_on_zeros(tmp_path: Path) -> None:
    engine = Recorder()
    assert warmup.warm_up(model_in(tmp_path / "1", HALF, TEXT, CLASSIFIER), engine) == 2
    assert [feed.tolist() for feed in engine.feeds] == [[0.0], [[b""], [b""]]]


@pytest.mark.parametrize(("code", "fails"), [(Code.INVALID_ARGUMENT, False), (Code.FAILED_PRECONDITION, True)])
def test_guessed_sizes_may_be_wrong_but_missing_variables_are_an_error(tmp_path: Path, code: Code, fails: bool) -> None:
    model, engine = model_in(tmp_path / "1", HALF), Recorder(Status(code, "no"))
    if not fails:
        assert warmup.warm_up(model, engine) == 0
        return
    with pytest.raises(Status):
        warmup.warm_up(model, engine)


def test_recorded_requests_run_instead_of_zeros(tmp_path: Path) -> None:
    model = model_in(tmp_path / "1", HALF, CLASSIFIER, REGRESSOR)
    tasks = [
        {"model_spec": {"signature_name": name}, "method_name": method}
        for name, method in (("classify", CLASSIFY), ("regress", REGRESS))
    ]
    write_records(
        model.folder,
        predict_log(5),
        log("classify_log", model_spec={"signature_name": "classify"}, input=INPUT),
        log("regress_log", model_spec={"signature_name": "regress"}, input=INPUT),
        log("multi_inference_log", tasks=tasks, input=INPUT),
    )
    engine = Recorder()
    assert warmup.warm_up(model, engine, iterations=2) == 4
    assert [len(feed) for feed in engine.feeds] == [1, 1, 2, 2, 2, 2, 2, 2, 2, 2]
    assert engine.feeds[0].tolist() == [5.0]


@pytest.mark.parametrize(
    ("record", "code"),
    [
        (protos.PredictionLog(session_run_log={}), Code.UNIMPLEMENTED),
        (protos.PredictionLog(predict_streamed_log={}), Code.UNIMPLEMENTED),
        (protos.PredictionLog(), Code.UNIMPLEMENTED),
        (log("predict_log", model_spec={"signature_name": "x"}), Code.INVALID_ARGUMENT),
        (log("classify_log", model_spec={"signature_name": "serving_default"}, input={}), Code.INVALID_ARGUMENT),
    ],
)
def test_a_record_that_fails_names_itself(tmp_path: Path, record: Any, code: Code) -> None:
    model = model_in(tmp_path / "1", HALF)
    file = write_records(model.folder, predict_log(1), record)
    with pytest.raises(Status, match=f"Record 2 of {file}") as caught:
        warmup.warm_up(model, Recorder())
    assert caught.value.code is code


def test_too_many_records_are_an_error(tmp_path: Path) -> None:
    model = model_in(tmp_path / "1", HALF)
    write_records(model.folder, *[predict_log(1)] * (warmup.MOST + 1))
    with pytest.raises(Status, match="more than 1000"):
        warmup.warm_up(model, Recorder())


def test_a_file_that_ends_in_a_record_is_damaged(tmp_path: Path) -> None:
    model = model_in(tmp_path / "1", HALF)
    file = write_records(model.folder, predict_log(1))
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(Status) as caught:
        warmup.warm_up(model, Recorder())
    assert caught.value.code is Code.DATA_LOSS


def test_the_context_is_merged_into_each_example() -> None:
    request = protos.ClassificationRequest()
    inputs = request.input.example_list_with_context
    for example, features in (
        (inputs.examples.add(), {"a": 1}),
        (inputs.examples.add(), {"b": 2}),
        (inputs.context, {"b": 3}),
    ):
        for name, value in features.items():
            example.features.feature[name].float_list.value.append(value)
    merged = [protos.Example.FromString(one).features.feature for one in warmup.read_examples(request.input)]
    assert [{name: one[name].float_list.value[0] for name in one} for one in merged] == [{"a": 1, "b": 3}, {"b": 2}]
