"""Damaged requests and clients that give up: the server answers every one that waits, and logs no traceback."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from support.serve.server_process import ServerProcess, predict_over_grpc
from tfjob.serve import protos

REQUESTS, IMPATIENT = 10_000, 2000
AT_ONCE = 50
SERVICES = "/tensorflow.serving.PredictionService", "/tensorflow.serving.ModelService"
METHODS = [f"{SERVICES[0]}/{name}" for name in ("Predict", "Classify", "Regress", "MultiInference", "GetModelMetadata")]
METHODS += [f"{SERVICES[1]}/GetModelStatus", f"{SERVICES[1]}/HandleReloadConfigRequest"]
ANSWERS = {"OK", "INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION", "UNIMPLEMENTED"}


@pytest.fixture(scope="module")
def server(saved_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("server")
    with ServerProcess(folder, "--model_name=half", f"--model_base_path={saved_models / 'half'}") as process:
        yield process


def good_requests() -> list[bytes]:
    """Return a valid message of each kind."""
    predict = protos.PredictRequest()
    predict.model_spec.name = "half"
    predict.inputs["x"].dtype = 1
    predict.inputs["x"].tensor_shape.dim.add().size = 2
    predict.inputs["x"].float_val.append(bytes(8))
    strings = protos.PredictRequest()
    strings.model_spec.name, strings.model_spec.signature_name = "half", "strings"
    for alias in ("suffix", "words"):
        strings.inputs[alias].dtype = 7
        strings.inputs[alias].string_val.append(b"word")
    strings.inputs["words"].tensor_shape.dim.add().size = 1
    classify = protos.ClassificationRequest()
    classify.model_spec.name, classify.model_spec.signature_name = "half", "classify"
    example = classify.input.example_list.examples.add()
    example.features.feature["x"].float_list.value.append(1)
    metadata = protos.GetModelMetadataRequest(metadata_field=["signature_def"])
    metadata.model_spec.name = "half"
    return [one.SerializeToString() for one in (predict, strings, classify, metadata)]


def damaged(message: bytes, dice: random.Random) -> bytes:
    """Change, remove, insert or repeat some bytes."""
    content = bytearray(message)
    for _ in range(dice.randint(1, 4)):
        place = dice.randrange(len(content) + 1)
        kind = dice.randrange(4)
        if kind == 0 and place < len(content):
            content[place] ^= 1 << dice.randrange(8)
        elif kind == 1:
            del content[place : place + dice.randint(1, 8)]
        elif kind == 2:
            content[place:place] = dice.randbytes(dice.randint(1, 8))
        else:
            content[place:place] = content[: dice.randint(0, 40)]
    return bytes(content)


def test_clients_that_give_up_leave_no_trace(server: ServerProcess) -> None:
    dice = random.Random(1)
    good = good_requests()[0]
    outcomes: Counter[str] = Counter()
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        call: Any = channel.unary_unary(METHODS[0])
        for _ in range(IMPATIENT // AT_ONCE):
            waiting = [call.future(good, timeout=dice.choice([0.001, 0.003, 0.01, 60])) for _ in range(AT_ONCE)]
            for one in waiting[:: dice.randint(2, 5)]:
                one.cancel()
            outcomes.update(one.code().name for one in waiting)
        assert outcomes.keys() <= {"OK", "CANCELLED", "DEADLINE_EXCEEDED"}, outcomes
        assert predict_over_grpc(channel, "half", x=2.0).outputs["y"].float_val == [4]
    assert "Traceback" not in server.text()


def test_damaged_requests_get_an_answer_and_hurt_no_one(server: ServerProcess) -> None:
    dice = random.Random(1)
    good = good_requests()
    answers: Counter[str] = Counter()
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        calls: dict[str, Any] = {method: channel.unary_unary(method) for method in METHODS}
        for _ in range(REQUESTS // AT_ONCE):
            waiting = [
                calls[dice.choice(METHODS)].future(damaged(dice.choice(good), dice), timeout=60) for _ in range(AT_ONCE)
            ]
            answers.update(call.code().name for call in waiting)
        assert answers.keys() <= ANSWERS, answers
        assert answers["INVALID_ARGUMENT"] > REQUESTS / 10, answers
        assert answers["OK"] > REQUESTS / 100, answers
        assert predict_over_grpc(channel, "half", x=2.0).outputs["y"].float_val == [4]
    assert "Traceback" not in server.text()
    assert server.stop() == 0
