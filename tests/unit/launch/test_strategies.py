"""Whether a program fits its replicas: a table of programs, replicas and findings."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from support.golden import Wording
from tfjob.api.manifest.program import Runs, read
from tfjob.launch.strategies import Source, problems

ROOT = Path(__file__).parents[3]
CHIEF, WORKER, PS, EVALUATOR = "Chief", "Worker", "PS", "Evaluator"
TF = "import tensorflow as tf\n"
MULTI = TF + "strategy = tf.distribute.MultiWorkerMirroredStrategy()\n"
MIRRORED = TF + "strategy = tf.distribute.MirroredStrategy()\n"
PLAIN = TF + "model = tf.keras.Sequential()\nmodel.fit(data)\n"
CLUSTER = "tf.distribute.cluster_resolver.TFConfigClusterResolver()"
SERVED = (
    TF + f"if task_type in ('worker', 'ps'):\n    tf.distribute.Server({CLUSTER}.cluster_spec()).join()\n    exit()\n"
)
SERVER = SERVED + f"strategy = tf.distribute.ParameterServerStrategy({CLUSTER})\n"
FIT = SERVER + "model.fit(data)\n"
EITHER = TF + "def choose(name):\n    if name == 'ps':\n        return tf.distribute.ParameterServerStrategy(r)\n"
EITHER += "    return tf.distribute.MultiWorkerMirroredStrategy()\nchoose(args.strategy)\nmodel.fit(data)\n"
LOCAL = TF + "spec = tf.train.ClusterSpec({})\n" + SERVER
ALONE, TWO, SERVERS = {WORKER: 1}, {WORKER: 2}, {CHIEF: 1, WORKER: 2, PS: 1}


class Case(NamedTuple):
    """A program, its replicas, and what is found: a keyword, the line, and whether it is an error."""

    text: str
    counts: dict[str, int]
    findings: list[tuple[str, int, bool]]
    keras: int | None = 3


CASES = {
    "several workers that train together": Case(MULTI, TWO, []),
    "parameter servers that nothing uses": Case(MULTI, SERVERS, [("does not use parameter servers", 2, True)]),
    "a program that may give them other work": Case(
        MULTI + "print(os.environ['TF_CONFIG'])\n", SERVERS, [("does not use parameter servers", 2, False)]
    ),
    "perhaps nothing uses them": Case(
        TF + "if args.many:\n    tf.distribute.MultiWorkerMirroredStrategy()\n",
        SERVERS,
        [("does not use parameter servers", 3, False)],
    ),
    "mirrored devices and parameter servers": Case(MIRRORED, SERVERS, [("does not use parameter servers", 2, False)]),
    "mirrored devices on one worker": Case(MIRRORED, ALONE, []),
    "mirrored devices on two": Case(MIRRORED, TWO, [("each of the 2 replicas trains alone", 2, False)]),
    "mirrored devices on a chief and a worker": Case(MIRRORED, {CHIEF: 1, WORKER: 1}, [("trains alone", 2, False)]),
    "mirrored devices or several workers": Case(MIRRORED + MULTI, TWO, []),
    "no strategy on one worker": Case(PLAIN, ALONE, []),
    "no strategy on two": Case(PLAIN, TWO, [("no distribution strategy", 0, False)]),
    "no strategy and no training": Case(TF + "print(tf.__version__)\n", TWO, []),
    "no strategy and no TensorFlow": Case("model.fit(data)\n", TWO, []),
    "another library": Case(PLAIN + "import horovod.tensorflow.keras as hvd\n", TWO, []),
    "its roles": Case(PLAIN + "task = json.loads(os.environ['TF_CONFIG'])\n", TWO, []),
    "parameter servers": Case(SERVER, SERVERS, []),
    "no parameter server": Case(SERVER, {CHIEF: 1, WORKER: 2}, [("needs a parameter server,", 5, True)]),
    "no chief": Case(SERVER, {WORKER: 2, PS: 1}, [("needs a chief,", 5, True)]),
    "neither": Case(SERVER, ALONE, [("needs a chief and a parameter server,", 5, True)]),
    "a built-in cluster": Case(LOCAL, ALONE, []),
    "a built-in cluster, and workers": Case(LOCAL, TWO, [("needs a chief", 7, False)]),
    "a choice of strategies": Case(EITHER, TWO, []),
    "fit on parameter servers": Case(FIT, SERVERS, [("`fit` of Keras 3", 6, True)]),
    "fit of an unknown Keras": Case(FIT, SERVERS, [("`fit` of Keras 3", 6, False)], keras=None),
    "fit of Keras 2": Case(FIT, SERVERS, [], keras=2),
    "fit of tf_keras": Case("import tf_keras\n" + FIT, SERVERS, []),
    "fit of the Keras that the program chooses": Case("os.environ['TF_USE_LEGACY_KERAS'] = '1'\n" + FIT, SERVERS, []),
    "fit beside a coordinator": Case(FIT + "tf.distribute.coordinator.ClusterCoordinator(strategy)\n", SERVERS, []),
    "perhaps fit on parameter servers": Case(EITHER, SERVERS, [("`fit` of Keras 3", 7, False)]),
    "an evaluator and no checkpoint": Case(PLAIN, {WORKER: 1, EVALUATOR: 1}, [("the evaluator has nothing", 0, False)]),
    "an evaluator with checkpoints": Case(
        PLAIN + "tf.keras.callbacks.ModelCheckpoint(folder)\n", {WORKER: 1, EVALUATOR: 1}, []
    ),
    "an evaluator of another program": Case("print(1)\n", {WORKER: 1, EVALUATOR: 1}, []),
}


@pytest.mark.parametrize("name", CASES)
def test_what_does_not_fit_is_found(name: str, wording: Wording) -> None:
    case = CASES[name]
    found = problems([Source("train.py", read(case.text.encode()))], case.counts, case.keras)
    assert [(one.line, not one.warning) for one in found] == [(line, is_error) for _, line, is_error in case.findings]
    for problem, (keyword, _, _) in zip(found, case.findings, strict=True):
        assert keyword in problem.message
        wording(problem)


OWN = {
    "src/tfjob/templates/single/train.py": ALONE,
    "src/tfjob/templates/multi-worker/train.py": TWO,
    "src/tfjob/templates/parameter-server/train.py": SERVERS,
    "examples/single/train.py": ALONE,
    "examples/mnist/train.py": {CHIEF: 1, WORKER: 2, EVALUATOR: 1},
    "examples/mnist-ps/train.py": {**SERVERS, EVALUATOR: 1},
    "examples/between-graph/train.py": SERVERS,
    "examples/estimator/train.py": {**SERVERS, EVALUATOR: 1},
    "examples/retrain/train.py": ALONE,
    "tests/programs/keras_workers.py": TWO,
}


@pytest.mark.parametrize("file", OWN)
def test_our_programs_fit_their_replicas(file: str) -> None:
    assert problems([Source(file, read((ROOT / file).read_bytes()))], OWN[file], 3) == []


def test_the_program_of_a_known_error_is_found_before_it_runs() -> None:
    program = read((ROOT / "tests/programs/errors/keras_parameter_server.py").read_bytes())
    (found,) = problems([Source("train.py", program)], SERVERS, 3)
    assert not found.warning
    assert "`fit` of Keras 3" in found.message


def test_a_call_in_a_module_that_is_perhaps_imported_is_a_warning() -> None:
    main, module = read(b"def f():\n    import model\n"), read(MULTI.encode(), is_main=False)
    for runs, is_warning in ((Runs.PERHAPS, True), (Runs.ALWAYS, False)):
        (found,) = problems([Source("train.py", main), Source("model.py", module, runs)], SERVERS, None)
        assert (found.source, found.line, found.warning) == ("model.py", 2, is_warning)
