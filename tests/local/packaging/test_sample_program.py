"""The program of the sample image: which of the examples it is."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[3] / "examples" / "train.py"
TASK = {"type": "master", "index": 0}


@pytest.mark.parametrize(
    ("cluster", "said"),
    [
        (None, "retrain --batch 5"),
        ({"master": ["a:2222"]}, "retrain --batch 5"),
        ({"master": ["a:2222"], "ps": ["b:2222"]}, "between-graph --steps 500 --batch 5"),
        ({"worker": ["a:2222", "b:2222"]}, "between-graph --steps 500 --batch 5"),
    ],
)
def test_alone_it_retrains_and_with_others_it_trains_between_graphs(
    cluster: dict[str, list[str]] | None, said: str, tmp_path: Path
) -> None:
    shutil.copy(PROGRAM, tmp_path)
    for name in ("retrain", "between-graph"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.py").write_text(f"import sys; print({name!r}, *sys.argv[1:])")
    env = {"TF_CONFIG": json.dumps({"cluster": cluster, "task": TASK})} if cluster else {}
    command = [sys.executable, str(tmp_path / "train.py"), "--batch", "5"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert done.stdout == f"{said}\n"
