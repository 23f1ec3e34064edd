"""A script as a manifest: the replicas that counts come to, and what travels."""

from __future__ import annotations

import pytest
import yaml

from support.golden import Wording
from tfjob.api.manifest import loader
from tfjob.api.manifest.script import MOST_BYTES, Counts, Script, documents, name_of, upload_problem
from tfjob.api.types import TF_CONFIG
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


def test_a_single_worker_that_was_requested_gets_tf_config() -> None:
    for counts, found in ((Counts(), None), (Counts(workers=1), "always"), (Counts(workers=2), None)):
        (job,) = documents(Script(["python", "train.py"]), counts, "train")
        assert job["metadata"].get("annotations", {}).get(TF_CONFIG) == found


@pytest.mark.parametrize(
    "script", [Script(["python", "train.py", "--epochs", "3"]), Script(["python", "train.py"], text="print(1)\n")]
)
@pytest.mark.parametrize("case", COUNTS)
def test_every_manifest_is_valid(case: str, script: Script) -> None:
    """In its text too: what is printed is what runs."""
    counts, replicas = COUNTS[case]
    loaded = loader.load(yaml.safe_dump_all(documents(script, counts, "train")), "train.yaml")
    assert not loaded.problems
    (job,) = loaded.jobs
    assert {name: spec.replicas for name, spec in job.spec.tf_replica_specs.items()} == replicas
    assert len(loaded.objects) == (script.text is not None)


def test_an_argument_reaches_the_script_as_it_was_written() -> None:
    """A manifest would read $(HOME) as a variable and $$ as a single $."""
    (job,) = documents(Script(["python", "train.py", "$(HOME)", "$$", "$HOME", "a b"]), Counts(), "train")
    command = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["command"]
    assert command == ["python", "train.py", "$$(HOME)", "$$$$", "$HOME", "a b"]


def test_a_script_that_travels_is_mounted_where_the_command_looks_for_it() -> None:
    config_map, job = documents(Script(["python", "src/train.py"], text="print(1)\n"), Counts(), "train", "image:1")
    pod = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]
    (container,) = pod["containers"]
    assert config_map["data"] == {"train.py": "print(1)\n"}
    assert pod["volumes"] == [{"name": "script", "configMap": {"name": config_map["metadata"]["name"]}}]
    assert container["command"][1] == f"{container['volumeMounts'][0]['mountPath']}/train.py"
    assert container["image"] == "image:1"


TOO_MUCH = {
    "too large": (f"x = '{'x' * MOST_BYTES}'", set[str](), "ConfigMap"),
    "a module beside it": ("import os\nimport model", {"model"}, "model"),
    "inside a function": ("def main():\n    from model.layers import one", {"model"}, "model"),
}


@pytest.mark.parametrize("case", TOO_MUCH)
def test_a_script_that_is_not_one_small_file_is_not_uploaded(case: str, wording: Wording) -> None:
    text, alongside, keyword = TOO_MUCH[case]
    problem = upload_problem(text, alongside)
    assert keyword in problem
    wording(problem)


def test_a_script_that_imports_only_installed_modules_is_uploaded() -> None:
    assert not upload_problem("import os\nimport tensorflow as tf\nfrom . import something", {"model", "data"})
