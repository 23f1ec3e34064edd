"""A script as a manifest: its name, its command, and the replicas that counts come to."""

from __future__ import annotations

from pathlib import PurePath

import pytest
import yaml

from support.golden import Wording
from tfjob.api.manifest import loader
from tfjob.api.manifest.script import Counts, Script, job_manifest, name_of, names_in
from tfjob.api.types import TF_CONFIG
from tfjob.api.validation import possible_name
from tfjob.errors import InvalidRequest

COUNTS = {
    "nothing said: one worker": (Counts(), {"Worker": 1}),
    "workers without a chief": (Counts(workers=3), {"Worker": 3}),
    "a chief alone": (Counts(chief=True), {"Chief": 1}),
    "a chief beside workers": (Counts(workers=2, chief=True), {"Chief": 1, "Worker": 2}),
    "servers need somebody who trains": (Counts(ps=2), {"Worker": 1, "PS": 2}),
    "also where a chief hands out the steps": (Counts(ps=1, chief=True), {"Chief": 1, "Worker": 1, "PS": 1}),
    "an evaluator trains nothing": (Counts(evaluators=1), {"Worker": 1, "Evaluator": 1}),
    "everything": (Counts(2, 1, True, 1), {"Chief": 1, "Worker": 2, "PS": 1, "Evaluator": 1}),
    "no workers, but a chief": (Counts(workers=0, chief=True), {"Chief": 1}),
}
IMPOSSIBLE = {
    "nobody trains": (Counts(workers=0), "no replica would train"),
    "servers without workers": (Counts(workers=0, ps=1, chief=True), "--ps"),
    "two evaluators": (Counts(evaluators=2), "--evaluator"),
}
NAMES = {
    "train.py": "train",
    "src/train_mnist.py": "train-mnist",
    "2nd.py": "job-2nd",
    "Größe.py": "gro-e",
    "__main__.py": "main",
    "日本.py": "job",
    f"{'x' * 39}_{'y' * 40}.py": "x" * 39,
    "-m pkg.train_mnist": "train-mnist",
    "-m pkg.__main__": "pkg",
    "-u src/train.py --file other.py": "train",
}
COMMANDS = {"bash scripts/train.sh": "train", "/opt/bin/Trainer --fast": "trainer"}


@pytest.mark.parametrize("case", COUNTS)
def test_counts_come_to_replicas(case: str) -> None:
    counts, replicas = COUNTS[case]
    assert counts.by_type() == replicas


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_counts_that_make_no_job_are_refused(case: str, wording: Wording) -> None:
    counts, keyword = IMPOSSIBLE[case]
    with pytest.raises(InvalidRequest, match=keyword) as caught:
        counts.by_type()
    wording(caught.value)


@pytest.mark.parametrize("words", NAMES)
def test_a_job_is_called_like_its_script(words: str) -> None:
    assert name_of(["python", *words.split()]) == NAMES[words]


@pytest.mark.parametrize("words", COMMANDS)
def test_a_job_is_called_like_its_command(words: str) -> None:
    assert name_of(words.split()) == COMMANDS[words]


def test_names_of_a_folder_get_longer_and_stay_valid() -> None:
    assert names_in(PurePath("/home/me/mnist"), "train")[:2] == ["train", "train-mnist"]
    for folder in ("/home/me/Größe 2", "/", "/" + "x" * 60):
        for name in ("train", "t" * 40):
            found = names_in(PurePath(folder), name)
            assert len(set(found)) > 1
            assert all(len(one) <= 40 and possible_name(one) == one for one in found)
    unique = {names_in(PurePath(folder), "train")[-1] for folder in ("/a/mnist", "/b/mnist", "/a/mnist")}
    assert len(unique) == 2


def test_a_single_worker_that_was_requested_gets_tf_config() -> None:
    for counts, found in ((Counts(), None), (Counts(workers=1), "always"), (Counts(workers=2), None)):
        job = job_manifest(Script(["python", "train.py"]), counts, "train")
        assert job["metadata"].get("annotations", {}).get(TF_CONFIG) == found


@pytest.mark.parametrize("case", COUNTS)
def test_every_manifest_is_valid(case: str) -> None:
    """In its text too: what is printed is what runs."""
    counts, replicas = COUNTS[case]
    script = Script(["python", "train.py", "--epochs", "3"], {"SEED": "1"})
    loaded = loader.load(yaml.safe_dump(job_manifest(script, counts, "train", "image:1")), "train.yaml")
    assert not loaded.problems
    (job,) = loaded.jobs
    assert {name: spec.replicas for name, spec in job.spec.tf_replica_specs.items()} == replicas


def test_an_argument_reaches_the_script_as_it_was_written() -> None:
    """A manifest would read $(HOME) as a variable and $$ as a single $."""
    job = job_manifest(Script(["python", "train.py", "$(HOME)", "$$", "$HOME", "a b"]), Counts(), "train")
    command = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["command"]
    assert command == ["python", "train.py", "$$(HOME)", "$$$$", "$HOME", "a b"]
