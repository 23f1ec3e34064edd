"""Known errors as real programs cause them: the verdict has the advice, and the last lines show the program's frame."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.installed import Installed
from support.running import status
from tfjob.plan.policy.known_errors import KNOWN_ERRORS

pytestmark = pytest.mark.timeout(240)

PROGRAMS = Path(__file__).parents[2] / "programs"
REMEDIES = {entry.name: f"{entry.cause} {entry.remedy}" for entry in KNOWN_ERRORS}
IN_CI = ("legacy_keras_missing", "tf_config_missing", "file_system_missing")
LONG: dict[str, dict[str, int]] = {
    "keras_multi_worker": {"Worker": 2},
    "keras_parameter_server": {"Chief": 1, "Worker": 1, "PS": 1},
    "replica_type_missing": {"Chief": 1, "Worker": 1},
    "peer_missing": {"Worker": 2},
    "variable_missing": {"Worker": 1},
    "address_in_use": {"Worker": 1},
    "out_of_memory": {"Worker": 1},
    "out_of_memory_native": {"Worker": 1},
    "cpu_instructions": {"Worker": 1},
    "cuda_library_missing": {"Worker": 1},
    "nan_loss": {"Worker": 1},
    "checkpoint_shape": {"Worker": 1},
    "checkpoint_shape_keras": {"Worker": 1},
    "disk_full": {"Worker": 1},
    "protobuf_version": {"Worker": 1},
    "tensorboard_missing": {"Worker": 1},
}
"""The replicas of each program. A suffix tells programs apart that cause the same error."""


def advice_for(program: str) -> str:
    return next(text for name, text in REMEDIES.items() if program.startswith(name.replace("-", "_")))


def fail(tool: Installed, home: Path, program: Path, replicas: dict[str, int]) -> tuple[dict[str, Any], str]:
    """Run a program that fails; return the verdict and what the command printed."""
    # The layer for Keras would let `keras_multi_worker` train.
    layer = {"name": "TFJOB_KERAS_LAYER", "value": "0"}
    container = {"name": "tensorflow", "image": "tensorflow", "command": ["python", str(program)], "env": [layer]}
    manifest = home.parent / "tfjob.yaml"
    specs = {
        kind: {"replicas": count, "restartPolicy": "Never", "template": {"spec": {"containers": [container]}}}
        for kind, count in replicas.items()
    }
    job = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "fails"}}
    manifest.write_text(yaml.safe_dump({**job, "spec": {"tfReplicaSpecs": specs}}))
    durations = json.dumps({"settle_gang": 1, "settle_tasks": 1})
    shell = {**tool.env, "TFJOB_TEST_DURATIONS": durations, "DATASET_FOLDER": "/data"}
    caller = dataclasses.replace(tool, env=shell)
    done = caller.tfjob(home, "run", str(manifest), "--python", sys.executable, "--cpu")
    assert done.returncode == 1, done.stdout + done.stderr
    failure: dict[str, Any] = status(tool, home, "fails")["failure"]  # type: ignore[assignment]
    return failure, done.stdout


@pytest.mark.tensorflow
@pytest.mark.parametrize("program", IN_CI)
def test_a_known_error_of_tensorflow_gets_its_advice(tool: Installed, home: Path, program: str) -> None:
    failure, shown = fail(tool, home, PROGRAMS / "errors" / f"{program}.py", {"Worker": 1})
    assert failure["advice"] == advice_for(program)
    assert f"  advice: {failure['advice']}" in shown.splitlines()
    assert f'  File "{PROGRAMS}/errors/{program}.py"' in failure["lastLines"][1]


@pytest.mark.long
@pytest.mark.tensorflow
@pytest.mark.parametrize("program", LONG)
def test_every_known_error_gets_its_advice(tool: Installed, home: Path, program: str) -> None:
    failure, shown = fail(tool, home, PROGRAMS / "errors" / f"{program}.py", LONG[program])
    assert failure["advice"] == advice_for(program), "\n".join([shown, *failure["lastLines"]])
    if failure["exitCode"] == 1:
        assert f'  File "{PROGRAMS}/errors/{program}.py"' in failure["lastLines"][1]


def test_the_own_frame_is_found_above_a_hundred_library_frames(tool: Installed, home: Path, tmp_path: Path) -> None:
    """A stand-in for Keras, with an array of many lines in its message."""
    library = tmp_path / "site-packages"
    library.mkdir()
    message = "no data: array([" + ",\n       ".join(["[0.1, 0.2]"] * 50) + "])\nKeyError: 'ps'"
    calls = [f"def fit{number}():\n    fit{number + 1}()\n" for number in range(100)]
    (library / "standin.py").write_text("".join([*calls, f"def fit100():\n    raise ValueError({message!r})\n"]))
    program = tmp_path / "train.py"
    program.write_text(f"import sys\nsys.path.append({str(library)!r})\nimport standin\nstandin.fit0()\n")
    failure, _ = fail(tool, home, program, {"Worker": 1})
    frame, source, hidden, exception, *rest = failure["lastLines"][1:]
    assert frame.startswith(f'  File "{program}", line 4')
    assert (source, hidden) == ("    standin.fit0()", "  [101 library frames]")
    assert exception.startswith("ValueError: no data")
    assert rest == ["[49 lines of numbers]", "KeyError: 'ps'"]
    assert failure["advice"] == advice_for("replica_type_missing")
