"""The client, `tfjob predict` and the programs in examples/serving, with a real server, over gRPC and REST."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from support.command_line import CommandLine
from support.installed import Installed
from support.ports import free_port
from support.serve.server_process import ServerProcess
from tfjob.errors import InvalidRequest
from tfjob.serve.client import GrpcModel, RestModel, choose_signature, connect
from tfjob.serve.errors import Code, Status
from tfjob.serve.savedmodel import read
from tfjob.serve.tensors import STRING, Array

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples" / "serving"
FOUR, DATA = EXAMPLES / "4.png", ROOT / "examples" / "mnist" / "data"
MODELS = ("half", "means", "digits")


@pytest.fixture(scope="module")
def server(saved_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("server")
    configs = (f'name: "{name}" base_path: "{saved_models / name}" model_platform: "tensorflow"' for name in MODELS)
    text = " ".join(f"config {{ {config} }}" for config in configs)
    (folder / "models.config").write_text(f"model_config_list {{ {text} }}")
    with ServerProcess(folder, f"--model_config_file={folder / 'models.config'}") as process:
        yield process


@pytest.fixture(params=["gRPC", "REST"])
def address(server: ServerProcess, request: pytest.FixtureRequest) -> str:
    return f"127.0.0.1:{server.port if request.param == 'gRPC' else server.rest_port}"


@pytest.fixture
def line(tool: Installed, tmp_path: Path) -> CommandLine:
    return CommandLine(tool, tmp_path / "home")


def test_the_first_bytes_of_a_server_say_which_protocol_it_has(server: ServerProcess) -> None:
    with connect(f"127.0.0.1:{server.port}", "half") as model:
        assert isinstance(model, GrpcModel)
    with connect(f"127.0.0.1:{server.rest_port}", "half") as model:
        assert isinstance(model, RestModel)
    with connect(f"http://127.0.0.1:{server.rest_port}", "half") as model:
        assert isinstance(model, RestModel)
    with connect(f"grpc://localhost:{server.port}", "half") as model:
        assert model.predict({"x": np.array([2], np.float32)})["y"].tolist() == [4]


def test_the_signatures_are_those_of_the_saved_model(address: str, saved_models: Path) -> None:
    with connect(address, "half") as model:
        served = model.signatures()
    written = read(saved_models / "half" / "3").signatures
    assert set(served) == set(written) - {"__saved_model_init_op"}
    for name, signature in served.items():
        assert signature == written[name]


def test_every_type_comes_back_as_it_was_sent(address: str) -> None:
    with connect(address, "half") as model:
        signature = model.signatures()["every_type"]
        sent: dict[str, Array] = {}
        for alias, spec in signature.inputs.items():
            if spec.dtype == STRING:
                sent[alias] = np.array([b"a", b"\xff\x00"], object)
            elif isinstance(model, RestModel) and "COMPLEX" in spec.dtype:
                return  # JSON has no complex numbers
            else:
                sent[alias] = np.array([0, 1]).astype(alias)
        outputs = model.predict(sent, "every_type")
    assert set(outputs) == {f"{alias}_out" for alias in sent}
    for alias, array in sent.items():
        assert outputs[f"{alias}_out"].dtype == array.dtype
        assert outputs[f"{alias}_out"].tolist() == array.tolist()


def test_one_output_and_several_inputs_have_their_names(address: str) -> None:
    with connect(address, "half") as model:
        inputs: dict[str, Array] = {"a": np.array([[1, 2]], np.float32), "b": np.array([3], np.int64)}
        assert model.predict(inputs, "two_inputs")["sum"].tolist() == [6]


def test_an_error_of_the_server_has_its_code_and_text(address: str) -> None:
    with connect(address, "absent") as model, pytest.raises(Status) as error:
        model.signatures()
    assert error.value.code is Code.NOT_FOUND
    assert "absent" in error.value.message
    with connect(address, "half") as model, pytest.raises(Status) as error:
        model.predict({"z": np.array([1], np.float32)})
    assert error.value.code.http == 400
    assert "z" in error.value.message


def test_a_server_that_is_not_there_is_an_error_with_its_address() -> None:
    port = free_port()
    for protocol in ("", "grpc://", "http://"):
        with pytest.raises(Status) as error, connect(f"{protocol}127.0.0.1:{port}", "half") as model:
            model.signatures()
        assert error.value.code is Code.UNAVAILABLE
        assert str(port) in error.value.message


@pytest.mark.parametrize(
    "server", ["", "localhost", "localhost:", ":9000", "localhost:http", "ftp://localhost:1", "h:70000"]
)
def test_an_invalid_address_is_an_error(server: str) -> None:
    with pytest.raises(InvalidRequest, match="HOST:PORT"):
        connect(server, "half")


def test_the_signature_is_the_named_or_the_default_or_the_only_one(saved_models: Path) -> None:
    half = read(saved_models / "half" / "1").signatures
    assert choose_signature(half).name == "serving_default"
    assert choose_signature(half, "pick").name == "pick"
    assert choose_signature({"pick": half["pick"]}).name == "pick"
    for known in ({}, {name: half[name] for name in ("pick", "regress")}):
        with pytest.raises(InvalidRequest, match="serving_default"):
            choose_signature(known)


def test_predict_names_the_digit_and_shows_probabilities(line: CommandLine, address: str) -> None:
    line.golden("predict-image", line("predict", f"{address}/means", "--image", str(FOUR)), exact=True)


def test_predict_counts_the_errors_on_test_images(line: CommandLine, address: str) -> None:
    shown = line("predict", f"{address}/means", "--data-dir", str(DATA))
    found = re.fullmatch(r"1000 images, error rate (\d+\.\d)%\n", shown)
    assert found, shown
    counted = json.loads(line("predict", f"{address}/means", "--data-dir", str(DATA), "--json"))["outputs"]
    assert counted["images"] == 1000
    assert float(found[1]) == counted["wrong"] / 10
    assert 0 < counted["wrong"] < 300


def test_predict_sends_an_array(line: CommandLine, address: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([2, 4], np.float64))
    shown = json.loads(line("predict", f"{address}/half", "--file", str(tmp_path / "x.npy"), "--json"))
    assert shown["kind"] == "Prediction"
    assert shown["outputs"] == {"offset": [3, 3], "y": [4, 5]}
    np.save(tmp_path / "images.npy", np.zeros((2, 28, 28), np.uint8))
    assert len(line("predict", f"{address}/digits", "--file", str(tmp_path / "images.npy")).splitlines()) == 2


def test_the_errors_of_predict_are_their_golden_text(line: CommandLine, server: ServerProcess, tmp_path: Path) -> None:
    np.save(tmp_path / "text.npy", np.array(["a"]))
    (tmp_path / "broken.npy").write_bytes(b"no array")
    place = f"127.0.0.1:{server.port}"
    shown = ""
    for words in (
        (f"{place}/means",),
        (f"{place}/means", "--image", str(FOUR), "--data-dir", str(DATA)),
        (place, "--image", str(FOUR)),
        (f"{place}/absent", "--image", str(FOUR)),
        (f"{place}/means", "--image", str(FOUR), "--signature", "other"),
        (f"{place}/half", "--image", str(FOUR)),
        (f"{place}/half", "--file", str(tmp_path / "text.npy")),
        (f"{place}/half", "--file", str(tmp_path / "broken.npy")),
        (f"{place}/half", "--file", str(tmp_path / "absent.npy")),
        (f"{place}/half", "--data-dir", str(tmp_path)),
        ("localhost:port/half", "--image", str(FOUR)),
    ):
        output = line("predict", *words, code=2)
        shown += f"$ tfjob predict {' '.join(words)}\n{output}"
    for text, name in ((place, "SERVER"), (str(tmp_path), "FOLDER"), (str(ROOT), "ROOT")):
        shown = shown.replace(text, name)
    line.golden("predict-errors", shown, exact=True)


def example(name: str, *words: str) -> str:
    done = subprocess.run([sys.executable, name, *words], cwd=EXAMPLES, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_clients_of_the_examples_print_what_those_of_the_documents_print(address: str) -> None:
    words = ["--server", address, "--data_dir", "../mnist/data", "--model_name", "means"]
    shown = example("mnist_client.py", *words, "--num_tests", "50", "--concurrency", "4")
    assert re.fullmatch(r"\.{50}\nInference error rate: \d+\.0%\n", shown), shown
    assert example("mnist_client.py", *words, "--image", "4.png").startswith("it is a 4\n")
    host, port = address.split(":")
    words = ["--host", host, "--port", port, "--image", "4.png", "--signature_name", "predict_images"]
    assert example("client.py", *words, "--model", "means").startswith("it is a 4\n")


def test_the_clients_need_no_tensorflow(server: ServerProcess) -> None:
    program = (
        "import runpy, sys; sys.argv[0] = 'client.py'; runpy.run_path('client.py', run_name='__main__');"
        "print([name for name in sys.modules if name.startswith('tensorflow')])"
    )
    words = ["--port", str(server.port), "--image", "4.png", "--model", "means"]
    done = subprocess.run(
        [sys.executable, "-c", program, *words], cwd=EXAMPLES, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
