"""Keras 3 `fit` on several workers with real TensorFlow: it gives what a custom loop and a single process give."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from support.installed import Installed
from support.running import Running, status, workload_pid

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(300)]

PROGRAM = Path(__file__).parents[2] / "programs" / "keras_workers.py"
SAME = 1e-5
"""The relative difference that another order of additions may cause."""
PATIENCE = 180.0


class Trainings:
    """Runs the program as a script job, in a folder of its own."""

    def __init__(self, tool: Installed, home: Path, folder: Path) -> None:
        self.tool = tool
        self.home = home
        self.folder = folder
        self.folder.mkdir()
        shutil.copy(PROGRAM, self.folder / "train.py")

    def words(self, *parts: str, workers: int = 2, options: tuple[str, ...] = ()) -> tuple[str, ...]:
        return ("train.py", "--workers", str(workers), "--python", sys.executable, *options, "--", *parts)

    def run(self, *parts: str, workers: int = 2, options: tuple[str, ...] = ()) -> dict[str, list[dict[str, Any]]]:
        """Run parts of the program to the end; return the results of all workers by part."""
        words = self.words(*parts, workers=workers, options=options)
        done = self.tool.tfjob(self.home, "run", *words, cwd=self.folder, timeout=PATIENCE)
        assert done.returncode == 0, done.stdout + done.stderr
        return results(done.stdout.splitlines())

    def starts(self) -> set[str]:
        """How the replicas started; a pod that was removed when the job succeeded no longer says it."""
        replicas: list[dict[str, Any]] = status(self.tool, self.home, "train")["replicas"]  # type: ignore[assignment]
        return {replica["start"].partition(":")[0] for replica in replicas} - {""}

    def events(self) -> list[str]:
        shown = json.loads(self.tool.tfjob(self.home, "events", "train", "-o", "json").stdout)
        return [one["message"] for one in shown["items"] if one["reason"] == "KerasLayer"]


@pytest.fixture
def trainings(tool: Installed, home: Path, tmp_path: Path) -> Trainings:
    return Trainings(tool, home, tmp_path / "job")


def results(lines: list[str]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        _, _, text = line.partition(" | ")
        if text.startswith('{"part"'):
            result = json.loads(text)
            found.setdefault(result.pop("part"), []).append(result)
    return found


def check_fit(found: dict[str, list[dict[str, Any]]], workers: int) -> dict[str, Any]:
    """Check that all workers have the same result, which is that of the custom loop; return it."""
    assert len(found["fit"]) == len(found["loop"]) == workers
    for result in found["fit"][1:]:
        assert result == found["fit"][0]
    for result in found["loop"]:
        assert result["loss"] == pytest.approx(found["fit"][0]["loss"], rel=SAME)
        assert result["weights"] == pytest.approx(found["fit"][0]["weights"], rel=SAME)
    return found["fit"][0]


def check_refused(found: dict[str, list[dict[str, Any]]]) -> None:
    """Check that each worker refused each case with a sentence that says what to do."""
    words = {
        "optimizer outside": "strategy.scope()",
        "metric outside": "strategy.scope()",
        "jit_compile": "jit_compile=False",
        "steps_per_execution": "steps_per_execution=1",
        "clipnorm": "clipnorm",
        "accumulation": "gradient_accumulation_steps",
        "averages": "ema_overwrite_frequency",
        "weighted mean": "mean_with_sample_weight",
        "fit unsharded": "number of steps",
        "predict unsharded": "AutoShardPolicy.OFF",
        "predict_on_batch": "use predict",
    }
    assert [one["case"] for one in found["refused"]].count("jit_compile") == 2
    assert {one["case"] for one in found["refused"]} == words.keys()
    for one in found["refused"]:
        assert words[one["case"]] in one["error"]


def test_keras_fit_on_two_workers_gives_what_a_custom_loop_gives(trainings: Trainings) -> None:
    """With callbacks and validation data, in warm replicas; what cannot be correct is refused; an event reports it."""
    found = trainings.run("fit", "loop", "refused")
    check_fit(found, workers=2)
    check_refused(found)
    assert trainings.starts() == {"warm"}
    assert len(trainings.events()) == 1


@pytest.mark.long
@pytest.mark.parametrize(("workers", "options"), [(2, ("--cold",)), (2, ()), (3, ())])
def test_several_workers_give_what_one_process_gives(
    trainings: Trainings, workers: int, options: tuple[str, ...]
) -> None:
    alone = trainings.run("fit", "weighted", workers=1)
    shared = trainings.run("fit", "loop", "weighted", "normalized", workers=workers, options=options)
    assert trainings.starts() == {"cold" if options else "warm"}
    check_fit(shared, workers)
    for part in ("fit", "weighted"):
        for name, values in alone[part][0].items():
            assert shared[part][0][name] == approx(values), f"{part} {name}"
    for part in ("weighted", "normalized"):
        assert len(shared[part]) == workers
        assert all(result == shared[part][0] for result in shared[part]), "all workers have the same model"


@pytest.mark.long
def test_a_backup_on_some_workers_only_is_refused(trainings: Trainings) -> None:
    words = trainings.words("lopsided")
    done = trainings.tool.tfjob(trainings.home, "run", *words, cwd=trainings.folder, timeout=PATIENCE)
    assert done.returncode == 1, done.stdout + done.stderr
    failure: dict[str, Any] = status(trainings.tool, trainings.home, "train")["failure"]  # type: ignore[assignment]
    assert failure["replica"] == "worker-1"
    assert "BackupAndRestore" in failure["lastLines"][-1]


@pytest.mark.long
@pytest.mark.parametrize(("workers", "victim"), [(2, 0), (2, 1), (3, 2)])
def test_a_killed_worker_resumes_from_the_backup(trainings: Trainings, workers: int, victim: int) -> None:
    """All workers resume at the same epoch from the chief's backup, and the result is that of an undisturbed run."""
    undisturbed = trainings.run("fit", workers=workers)["fit"][0]
    words = trainings.words("backup", workers=workers)
    with Running(trainings.tool, trainings.home, *words, cwd=trainings.folder) as run:
        run.wait_for("epoch 2 begins", PATIENCE, count=workers)
        pid = workload_pid(trainings.home, f"train-worker-{victim}")
        (trainings.folder / "go").touch()
        os.kill(pid, signal.SIGKILL)
        assert run.finish(PATIENCE) == 0
        found = results(run.lines)["backup"]
        for worker in range(workers):
            begun = [line for line in run.lines_of(f"worker-{worker}") if line.endswith("begins")]
            assert begun[:3] == [f"epoch {number} begins" for number in (0, 1, 2)]
            assert begun[-2:] == ["epoch 2 begins", "epoch 3 begins"]
            assert begun.count("epoch 0 begins") == 1
    for result in found:
        assert result["weights"] == approx(undisturbed["weights"])
        assert result["loss"] == approx(undisturbed["loss"][2:])
    assert not (trainings.folder / "backup").exists()  # Keras removes it after the training


@pytest.mark.long
def test_without_the_layer_keras_fails_with_its_own_error(trainings: Trainings) -> None:
    job = trainings.tool.tfjob(
        trainings.home, "run", *trainings.words("fit", options=("--dry-run", "-o", "yaml")), cwd=trainings.folder
    )
    off = "            env: [{name: TFJOB_KERAS_LAYER, value: '0'}]\n"
    at = job.stdout.index("            command:")
    (trainings.folder / "job.yaml").write_text(job.stdout[:at] + off + job.stdout[at:])
    words = ("run", "job.yaml", "--python", sys.executable)
    done = trainings.tool.tfjob(trainings.home, *words, cwd=trainings.folder, timeout=PATIENCE)
    assert done.returncode != 0
    assert "PerReplica" in done.stdout
    assert trainings.events() == []


def approx(values: Any) -> Any:
    """Compare nested lists of numbers."""
    if values and isinstance(values[0], list):
        return [approx(one) for one in values]
    return pytest.approx(values, rel=1e-3, abs=1e-5)
