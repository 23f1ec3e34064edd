"""The check of a model before it is published, in the real serving engine."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.serve.signatures import write_saved_model
from tfjob.errors import InvalidRequest
from tfjob.serve.check import check
from tfjob.serve.exports import publish, read


@pytest.mark.parametrize("name", ["half", "digits", "means"])
def test_a_model_that_answers_passes(saved_models: Path, name: str, tmp_path: Path) -> None:
    """`half` also has signatures that reject zeros: they read strings."""
    assert publish(saved_models / name / "1", tmp_path / name) == tmp_path / name / "1"


def test_a_model_without_its_values_does_not_pass(saved_models: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="does not load in the serving engine") as error:
        publish(saved_models / "broken" / "1", tmp_path / "model")
    assert error.value.message.startswith(str(saved_models / "broken" / "1"))
    assert not (tmp_path / "model").exists()


def test_a_model_without_a_graph_does_not_pass(tmp_path: Path) -> None:
    folder = write_saved_model(tmp_path / "model")
    with pytest.raises(InvalidRequest, match=r"serving engine|fails"):
        check(folder, list(read(folder).signatures.values()))
    with pytest.raises(InvalidRequest, match="no signature"):
        check(folder, [])


def test_a_model_that_crashes_the_engine_does_not_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_saved_model(tmp_path / "model")
    run = subprocess.run

    def crash(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        program = f"import os, signal; os.kill(os.getpid(), {signal.SIGSEGV.value})"
        return run([command[0], "-c", program], **options)

    monkeypatch.setattr(subprocess, "run", crash)
    with pytest.raises(InvalidRequest, match=r"crashes the serving engine \(SIGSEGV\)"):
        check(folder, list(read(folder).signatures.values()))
