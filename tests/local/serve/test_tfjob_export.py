"""tfjob.export and the export of checkpoints, with real TensorFlow; the serving engine runs what they write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfjob.errors import InvalidRequest
from tfjob.serve import engine
from tfjob.serve.exports import export_at, find_exports, publish, read
from tfjob.serve.sample import sample_inputs
from tfjob.serve.savedmodel import Signature
from tfjob.serve.tensors import STRING

ROOT = Path(__file__).parents[3]
CASES = ROOT / "tests" / "programs" / "serving" / "export_cases.py"
PROGRAM = ROOT / "src" / "tfjob" / "programs" / "tfjob_export.py"


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that programs/serving/export_cases.py describes."""
    folder = tmp_path_factory.mktemp("export-cases")
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run([sys.executable, CASES, folder], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING:tensorflow" not in done.stderr
    return folder


def run(folder: Path, signature: Signature) -> dict[str, Any]:
    """Run a signature on ones in the serving engine."""
    inputs = {alias: np.ones_like(array) for alias, array in sample_inputs(signature).items()}
    for alias, spec in signature.inputs.items():
        if spec.dtype == STRING:
            inputs[alias] = np.array([b"one two"], object)
    loaded = engine.load(folder)
    try:
        feeds = {signature.inputs[alias].name: array for alias, array in inputs.items()}
        results = loaded.run(feeds, [spec.name for spec in signature.outputs.values()])
    finally:
        loaded.close()
    return dict(zip(signature.outputs, results, strict=True))


def test_every_kind_of_model_gives_the_same_in_the_serving_engine(cases: Path) -> None:
    expected = json.loads((cases / "expected.json").read_text())
    found = {export.name: export for export in find_exports([cases / "models"])}
    assert set(found) == set(expected)
    for name, export in found.items():
        for signature in read(export.folder).signatures.values():
            outputs = run(export.folder, signature)
            (values,) = [array for alias, array in outputs.items() if alias != "digits"]
            np.testing.assert_allclose(values, expected[name], rtol=1e-4, atol=1e-6, err_msg=name)


def test_a_model_of_keras_that_only_python_can_run_gets_advice(cases: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"Could not find variable .*\n.* tfjob\.export"):
        publish(cases / "trap", cases / "published")


def test_names_types_and_shapes_are_those_of_the_arguments(cases: Path) -> None:
    def shown(name: str) -> dict[str, Any]:
        found = {}
        for key, one in read(cases / "models" / name / "1").signatures.items():
            found[key] = {alias: (spec.dtype, spec.shape) for alias, spec in one.inputs.items()}, set(one.outputs)
        return found

    scaled = ({"images": ("DT_UINT8", (None, 4, 4))}, {"digits", "probabilities"})
    assert shown("scaled") == {"serving_default": scaled, "predict_images": scaled}
    assert shown("sequential")["serving_default"] == ({"inputs": ("DT_FLOAT", (None, 4, 4))}, {"outputs"})
    assert set(shown("two_inputs")["serving_default"][0]) == {"a", "b"}
    assert shown("renamed_inputs")["serving_default"][1] == {"sum"}
    assert set(shown("renamed_inputs")["serving_default"][0]) == {"left", "right"}


def test_the_step_is_recorded(cases: Path) -> None:
    steps = {export.name: export.step for export in find_exports([cases / "models"])}
    assert (steps["scaled"], steps["function"], steps["sequential"]) == (2, 9, None)


def test_a_worker_writes_nothing(cases: Path) -> None:
    assert not (cases / "models" / "worker").exists()


@pytest.mark.parametrize(
    ("kind", "step"), [("attribute", 70), ("other_name", 0), ("root", None), ("names", 80), ("keras", None)]
)
def test_a_checkpoint_of_each_kind_is_exported(cases: Path, kind: str, step: int | None) -> None:
    answer = json.loads((cases / "answers.json").read_text())[f"{kind} build"]
    assert answer["step"] == step
    folder = cases / "restored" / f"{kind}-build"
    assert export_at(folder).step == step
    assert run(folder, read(folder).signatures["serving_default"])["outputs"].tolist() == [[2, 2, 2]]


def test_the_function_that_builds_a_model_may_name_inputs_and_outputs(cases: Path) -> None:
    folder = cases / "restored" / "attribute-build_with_options"
    signature = read(folder).signatures["serving_default"]
    assert signature.inputs["points"].dtype == "DT_DOUBLE"
    assert run(folder, signature)["scores"].tolist() == [[4, 4, 4]]


@pytest.mark.parametrize("kind", ["attribute", "other_name", "root", "names", "keras"])
def test_a_checkpoint_of_another_shape_is_an_error_with_both_shapes(cases: Path, kind: str) -> None:
    answers = json.loads((cases / "answers.json").read_text())
    wider, deeper = (answers[f"{kind} {function}"]["error"] for function in ("build_wider", "build_deeper"))
    assert "2, 3" in wider
    assert "2, 4" in wider
    assert str(cases / "checkpoints" / kind) in deeper
    assert not (cases / "restored" / f"{kind}-build_wider").exists()


def test_the_file_of_the_example_is_that_of_tfjob() -> None:
    assert (ROOT / "examples" / "mnist" / "tfjob_export.py").read_text() == PROGRAM.read_text()


@pytest.mark.parametrize(
    ("tf_config", "writes"),
    [
        ("", True),
        ('{"task": {"type": "evaluator", "index": 0}}', False),
        ('{"cluster": {"chief": ["a"], "worker": ["b"]}, "task": {"type": "chief", "index": 0}}', True),
        ('{"cluster": {"chief": ["a"], "worker": ["b"]}, "task": {"type": "worker", "index": 0}}', False),
        ('{"cluster": {"master": ["a"], "worker": ["b"]}, "task": {"type": "master", "index": 0}}', True),
        ('{"cluster": {"worker": ["a", "b"]}, "task": {"type": "worker", "index": 0}}', True),
        ('{"cluster": {"worker": ["a", "b"]}, "task": {"type": "worker", "index": 1}}', False),
        ('{"cluster": {"worker": ["a"], "ps": ["b"]}, "task": {"type": "ps", "index": 0}}', False),
        ('{"cluster": {"worker": ["a"]}, "task": {"type": "evaluator", "index": 0}}', False),
    ],
)
def test_only_the_chief_writes(tf_config: str, writes: bool) -> None:
    program = "import sys; from tfjob_export import is_chief; print(is_chief(sys.argv[1]), 'tensorflow' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program, tf_config], cwd=PROGRAM.parent, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(writes), "False"]
