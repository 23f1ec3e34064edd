"""Requests on arrays, without a transport."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.async_tests import async_test
from support.serve.toy_models import HALF, ToyEngine, write_model
from tfjob.serve.config import Batching, Loading, ModelConfig
from tfjob.serve.errors import Code, Status
from tfjob.serve.metrics import Metrics
from tfjob.serve.models import Models, State
from tfjob.serve.predict import ModelSpec, Predictor, Task
from tfjob.serve.savedmodel import CLASSIFY, PREDICT, REGRESS, Signature, TensorSpec
from tfjob.serve.tensors import Array

EXAMPLES = {"inputs": TensorSpec("e:0", "DT_STRING", (None,))}
CLASSIFIER = Signature("classify", CLASSIFY, EXAMPLES, {"scores": TensorSpec("s:0", "DT_FLOAT", (None, 2))})
REGRESSOR = Signature("regress", PREDICT, EXAMPLES, {"outputs": TensorSpec("o:0", "DT_FLOAT", (None, 1))})
INIT = Signature("__saved_model_init_op", "", {}, {"init": TensorSpec("init", "DT_INVALID", None)})


class Lengths(ToyEngine):
    """Scores examples by their lengths."""

    def run(self, feeds: Mapping[str, Array], fetches: Sequence[str]) -> list[Array]:
        if "e:0" not in feeds:
            return super().run(feeds, fetches)
        lengths = np.array([[len(one)] for one in feeds["e:0"]], np.float32)
        found: dict[str, Array] = {"s:0": np.hstack([lengths, -lengths]), "o:0": lengths}
        return [found[name] for name in fetches]


@asynccontextmanager
async def a_predictor(checks_methods: bool = False) -> AsyncIterator[tuple[Predictor, Lengths]]:
    engine = Lengths()
    with tempfile.TemporaryDirectory() as folder:
        write_model(Path(folder, "1"), HALF, CLASSIFIER, REGRESSOR, INIT)
        models = Models(Loading(poll_seconds=0, warmup=False), Batching(), Metrics(), lambda *_: engine)
        models.configure([ModelConfig("m", Path(folder), labels={"stable": 1})])
        predictor = Predictor(models, Metrics(), checks_methods)
        try:
            yield predictor, engine
        finally:
            engine.gate.set()
            predictor.close()
            models.close(5)


def spec(signature: str = "", **given: Any) -> ModelSpec:
    return ModelSpec(**{"name": "m", "signature": signature, **given})


async def error_of(work: Awaitable[object]) -> tuple[Code, str]:
    with pytest.raises(Status) as caught:
        await work
    return caught.value.code, caught.value.message


@async_test(a_predictor)
async def test_a_prediction_names_what_computed_it(predictor: Predictor, engine: Lengths) -> None:
    found = await predictor.predict(spec(label="stable"), {"x": np.array([3], np.float32)}, ["y"])
    assert (found.name, found.version, found.signature) == ("m", 1, "serving_default")
    assert {alias: array.tolist() for alias, array in found.outputs.items()} == {"y": [1.5]}


@async_test(a_predictor)
async def test_unknown_signatures_have_the_code_of_their_method(predictor: Predictor, engine: Lengths) -> None:
    for name in ("x", INIT.name):
        assert await error_of(predictor.predict(spec(name), {})) == (
            Code.FAILED_PRECONDITION,
            f'Serving signature key "{name}" not found.',
        )
        text = f"No signature was found with the name: {name}"
        assert await error_of(predictor.classify(spec(name), [b""])) == (Code.INVALID_ARGUMENT, text)
        assert await error_of(predictor.regress(spec(name), [b""])) == (Code.INVALID_ARGUMENT, text)


@async_test(a_predictor)
async def test_examples_are_classified_and_regressed(predictor: Predictor, engine: Lengths) -> None:
    classes = await predictor.classify(spec("classify"), [b"a", b"abc"])
    assert classes.outputs["scores"].tolist() == [[1, -1], [3, -3]]
    values = await predictor.regress(spec("regress"), [b"a", b"abc"])
    assert values.outputs["outputs"].tolist() == [1, 3]
    for api in ("Classify", "Regress"):
        assert f'latency_count{{model_name="m",API="{api}",runtime="TF2"}} 1' in predictor.metrics.page()


@async_test(a_predictor, checks_methods=True)
async def test_methods_are_checked_on_request(predictor: Predictor, engine: Lengths) -> None:
    assert (await predictor.classify(spec("classify"), [b"a"])).outputs
    code, text = await error_of(predictor.regress(spec("regress"), [b"a"]))
    assert code is Code.INVALID_ARGUMENT
    assert REGRESS in text


@async_test(a_predictor)
async def test_several_tasks_share_their_examples(predictor: Predictor, engine: Lengths) -> None:
    tasks = [Task(spec("classify"), CLASSIFY), Task(spec("regress"), REGRESS)]
    found = await predictor.multi_inference(tasks, [b"ab"])
    assert [list(one.outputs) for one in found] == [["scores"], ["outputs"]]
    other = Task(ModelSpec("other", signature="x"), REGRESS)
    assert (
        ':tensorflow:serving:runtime_latency_count{model_name="m",API="MultiInference",runtime="TF2"} 2'
        in predictor.metrics.page()
    )
    for bad, words in (([], "no tasks"), ([tasks[0], tasks[0]], "Duplicate"), ([tasks[0], other], "same model")):
        code, text = await error_of(predictor.multi_inference(bad, [b"ab"]))
        assert code is Code.INVALID_ARGUMENT
        assert words in text


@async_test(a_predictor)
async def test_a_request_that_takes_too_long_ends(predictor: Predictor, engine: Lengths) -> None:
    engine.gate.clear()
    soon = asyncio.get_running_loop().time() + 0.05
    code, _ = await error_of(predictor.predict(spec(), {"x": np.zeros(1, np.float32)}, deadline=soon))
    assert code is Code.DEADLINE_EXCEEDED


@async_test(a_predictor)
async def test_metadata_has_the_signatures_for_users(predictor: Predictor, engine: Lengths) -> None:
    assert predictor.metadata(spec()).signatures.keys() == {"serving_default", "classify", "regress"}
    assert predictor.signature(spec()) == HALF
    assert predictor.signature(spec("regress")) == REGRESSOR


@async_test(a_predictor)
async def test_the_status_of_all_versions_or_one(predictor: Predictor, engine: Lengths) -> None:
    for one in (spec(), spec(version=1), spec(label="stable")):
        assert [(row.version, row.state) for row in predictor.status(one)] == [(1, State.AVAILABLE)]
    for one, code, text in (
        (spec(version=7), Code.NOT_FOUND, "Could not find version 7 of model m"),
        (ModelSpec("x"), Code.NOT_FOUND, "Could not find any versions of model x"),
        (ModelSpec(""), Code.INVALID_ARGUMENT, "ModelSpec has no name specified."),
        (spec(label="x"), Code.INVALID_ARGUMENT, "Unrecognized servable version label: x"),
    ):
        with pytest.raises(Status) as caught:
            predictor.status(one)
        assert (caught.value.code, caught.value.message) == (code, text)


@async_test(a_predictor)
async def test_a_reload_names_models_that_do_not_become_available(predictor: Predictor, engine: Lengths) -> None:
    code, text = await error_of(predictor.reload([ModelConfig("empty", Path("/nothing/here"))]))
    assert code is Code.UNKNOWN
    assert text.startswith("1 servable(s) did not become available: ")
    assert "/nothing/here" in text
