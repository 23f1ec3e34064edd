"""TensorFlow's C library, called from this process, without TensorFlow's Python package."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tfjob.serve import engine, protos, savedmodel
from tfjob.serve.engine import Engine, MissingTensorFlow
from tfjob.serve.errors import Code, Status
from tfjob.serve.savedmodel import Signature
from tfjob.serve.tensors import Array

LEAK = 50_000_000
"""Bytes; a leak of the strings below would be ten times as much."""


@pytest.fixture(scope="module")
def half(saved_models: Path) -> Iterator[Engine]:
    loaded = engine.load(saved_models / "half/3")
    yield loaded
    loaded.close()


@pytest.fixture(scope="module")
def signatures(saved_models: Path) -> dict[str, Signature]:
    return dict(savedmodel.read(saved_models / "half/3").signatures)


def ask(loaded: Engine, signature: Signature, **inputs: Array) -> dict[str, Array]:
    feeds = {signature.inputs[alias].name: array for alias, array in inputs.items()}
    names = [spec.name for spec in signature.outputs.values()]
    return dict(zip(signature.outputs, loaded.run(feeds, names), strict=True))


def strings(*values: bytes) -> Array:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def test_numbers(half: Engine, signatures: dict[str, Signature]) -> None:
    found = ask(half, signatures["serving_default"], x=np.array([1, 3], np.float32))
    assert found["y"].tolist() == [3.5, 4.5]
    assert ask(half, signatures["serving_default"], x=np.zeros(0, np.float32))["y"].shape == (0,)


def test_arrays_with_gaps(half: Engine, signatures: dict[str, Signature]) -> None:
    wide = np.arange(12, dtype=np.float32).reshape(3, 4)
    found = ask(half, signatures["two_inputs"], a=wide[:, ::2][:, :2], b=np.arange(6)[::2])
    assert found["sum"].tolist() == [0 + 2 + 0, 4 + 6 + 2, 8 + 10 + 4]


def test_a_scalar_stays_a_scalar(half: Engine, signatures: dict[str, Signature]) -> None:
    suffix = np.empty((), object)
    suffix[()] = b"!"
    found = ask(half, signatures["strings"], suffix=suffix, words=strings(b"a", b""))
    assert found["joined"].tolist() == [b"a!", b"!"]
    assert found["suffix_bytes"][()] == b"!"


def test_strings_do_not_leak(half: Engine, signatures: dict[str, Signature]) -> None:
    suffix = np.empty((), object)
    suffix[()] = b"!"
    words = strings(b"x" * 1_000_000)
    ask(half, signatures["strings"], suffix=suffix, words=words)
    engine.return_memory()
    before = anonymous_memory()
    for _ in range(LEAK // 100_000):
        ask(half, signatures["strings"], suffix=suffix, words=words)
    engine.return_memory()
    assert anonymous_memory() - before < LEAK


def test_threads_share_a_session(half: Engine, signatures: dict[str, Signature]) -> None:
    wrong: list[object] = []

    def run(number: int) -> None:
        for _ in range(200):
            found = ask(half, signatures["serving_default"], x=np.full(number, number, np.float32))
            if found["y"].tolist() != [number / 2 + 3] * number:
                wrong.append(found)

    threads = [threading.Thread(target=run, args=[number]) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize(
    ("name", "array", "code", "text"),
    [
        ("nothing:0", np.zeros(1, np.float32), Code.INVALID_ARGUMENT, "nothing:0"),
        ("serving_default_x:7", np.zeros(1, np.float32), Code.INVALID_ARGUMENT, "serving_default_x:7"),
        ("serving_default_x:0", np.zeros(1, np.int32), Code.INVALID_ARGUMENT, "int32"),
    ],
)
def test_errors_have_the_code_of_tensorflow(
    name: str, array: Array, code: Code, text: str, half: Engine, signatures: dict[str, Signature]
) -> None:
    outputs = [spec.name for spec in signatures["serving_default"].outputs.values()]
    with pytest.raises(Status) as caught:
        half.run({name: array}, outputs)
    assert caught.value.code is code
    assert text in caught.value.message


def test_a_folder_that_does_not_load_is_an_error(saved_models: Path, tmp_path: Path) -> None:
    with pytest.raises(Status):
        engine.load(saved_models / "broken/1")
    with pytest.raises(Status) as caught:
        engine.load(tmp_path)
    assert caught.value.code is Code.NOT_FOUND
    with pytest.raises(Status, match="no_such_tag"):
        engine.load(saved_models / "half/1", ["no_such_tag"])


def test_the_options_of_a_session_reach_tensorflow(saved_models: Path) -> None:
    config = protos.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    loaded = engine.load(saved_models / "half/1", session_config=config.SerializeToString())
    loaded.close()
    with pytest.raises(Status, match="ConfigProto"):
        engine.load(saved_models / "half/1", session_config=b"\xff")


def test_the_python_package_is_not_imported(saved_models: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from tfjob.serve import engine;"
        f"engine.load(Path({str(saved_models / 'half/1')!r})).close();"
        "print([name for name in sys.modules if name.split('.')[0] in ('tensorflow', 'keras')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_missing_library_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tensorflow").mkdir()
    (tmp_path / "tensorflow/__init__.py").touch()
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    engine._library.cache_clear()
    try:
        with pytest.raises(MissingTensorFlow, match=r"no TF_\w+ in any library"):
            engine.load(tmp_path)
        monkeypatch.setattr(sys, "path", [])
        with pytest.raises(MissingTensorFlow, match="not installed"):
            engine.load(tmp_path)
    finally:
        engine._library.cache_clear()


def anonymous_memory() -> int:
    text = Path("/proc/self/smaps_rollup").read_text()
    return next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Anonymous:"))
