"""Whether a program fits the replicas that it is started with: its strategy, its evaluator, and Keras `fit`.

A finding is an error only if the job fails for sure. If the program chooses its strategy when it runs, or may not reach
the line, it is a warning; if it connects its replicas in another way, there is none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tfjob.api.manifest.program import Program, Runs
from tfjob.api.problems import Problem
from tfjob.api.types import CHIEF, EVALUATOR, PS, WORKER
from tfjob.plan.policy.known_errors import KNOWN_ERRORS

MULTI_WORKER, PARAMETER_SERVER, MIRRORED = "MultiWorkerMirroredStrategy", "ParameterServerStrategy", "MirroredStrategy"
STRATEGIES = {
    MULTI_WORKER: MULTI_WORKER,
    "CollectiveAllReduceStrategy": MULTI_WORKER,
    PARAMETER_SERVER: PARAMETER_SERVER,
    "ParameterServerStrategyV2": PARAMETER_SERVER,
    MIRRORED: MIRRORED,
    "OneDeviceStrategy": "OneDeviceStrategy",
    "CentralStorageStrategy": "CentralStorageStrategy",
    "TPUStrategy": "TPUStrategy",
}
"""The classes of TensorFlow by name; some have an older name too."""
OF_ONE_REPLICA = {MIRRORED, "OneDeviceStrategy", "CentralStorageStrategy"}
KERAS_3 = 3

_KERAS = {"tensorflow", "keras", "tf_keras"}
_LEGACY_KERAS = {"tf_keras", "TF_USE_LEGACY_KERAS"}
_TRAINS = {"fit", "train_on_batch", "GradientTape", "apply_gradients", "minimize"}
_READS_ROLE = {"TF_CONFIG", "TFConfigClusterResolver", "task_type"}
_OWN_CLUSTER = {"SimpleClusterResolver", "ClusterSpec", "train_and_evaluate"}
_CONNECTS = _READS_ROLE | _OWN_CLUSTER | {"Server", "horovod", "torch", "jax", "ray", "dtensor", "DataParallel"}
_WRITES_CHECKPOINTS = {
    *("ModelCheckpoint", "BackupAndRestore", "Checkpoint", "CheckpointManager", "Saver", "MonitoredTrainingSession"),
    *("save", "save_weights", "save_model", "export", "train_and_evaluate", "TFJOB_CHECKPOINT_DIR"),
}


@dataclass(frozen=True)
class Source:
    """A file of the program, and when the program imports it."""

    file: str
    program: Program
    runs: Runs = Runs.ALWAYS


@dataclass(frozen=True)
class _Place:
    """Where the program calls something, and when."""

    file: str
    line: int = 0
    column: int = 0
    runs: Runs = Runs.PERHAPS

    def problem(self, message: str, hint: str, *, is_sure: bool = False) -> Problem:
        return Problem("", message, hint, self.line, self.column, self.file, warning=not is_sure)


def problems(sources: Sequence[Source], counts: Mapping[str, int], keras: int | None) -> list[Problem]:
    """Return what does not fit, for the replicas of each type and the major version of Keras; None if unknown.

    The first source is the main program.
    """
    words = frozenset[str]().union(*(source.program.words for source in sources))
    chosen = {STRATEGIES[word] for word in words & set(STRATEGIES)}
    found = [*_wrong_strategy(sources, words, chosen, counts), *_alone(sources, words, chosen, counts)]
    if counts.get(EVALUATOR) and words & _KERAS and not words & _WRITES_CHECKPOINTS:
        message = "nothing in the program writes checkpoints, so the evaluator has nothing to evaluate"
        hint = "write them to the folder in TFJOB_CHECKPOINT_DIR, for example with tf.keras.callbacks.ModelCheckpoint"
        found.append(_Place(sources[0].file).problem(message, hint))
    if counts.get(PS) or len(chosen) == 1:
        found += _unsupported_fit(sources, words, chosen, keras)
    return found


def _wrong_strategy(
    sources: Sequence[Source], words: Collection[str], chosen: set[str], counts: Mapping[str, int]
) -> Iterator[Problem]:
    place = _first_call(sources, [name for name, kind in STRATEGIES.items() if kind in chosen])
    if counts.get(PS) and len(chosen) == 1 and not chosen & {PARAMETER_SERVER, "TPUStrategy"}:
        # A program that reads its role may let parameter servers do something else.
        is_sure = chosen == {MULTI_WORKER} and place.runs is Runs.ALWAYS and not _READS_ROLE.intersection(words)
        message = f"{min(chosen)} does not use parameter servers, but the job has {counts[PS]}"
        yield place.problem(message, "omit --ps, or use ParameterServerStrategy", is_sure=is_sure)
    missing = {"chief": "--chief", "parameter server": "--ps 1"}
    missing = {what: missing[what] for what, kind in zip(missing, (CHIEF, PS), strict=True) if not counts.get(kind)}
    has_own = bool(_OWN_CLUSTER.intersection(words))
    if chosen == {PARAMETER_SERVER} and missing and not (has_own and sum(counts.values()) == 1):
        message = f"{PARAMETER_SERVER} needs a {' and a '.join(missing)}, which the job does not have"
        is_sure = place.runs >= Runs.IN_A_ROLE and not has_own
        yield place.problem(message, f"add {' '.join(missing.values())}", is_sure=is_sure)


def _alone(
    sources: Sequence[Source], words: Collection[str], chosen: set[str], counts: Mapping[str, int]
) -> Iterator[Problem]:
    training = counts.get(CHIEF, 0) + counts.get(WORKER, 0)
    if training < 2 or counts.get(PS) or not _KERAS.intersection(words):
        return
    if len(chosen) == 1 and chosen <= OF_ONE_REPLICA:
        (name,) = chosen
        message = f"{name} uses the devices of one replica, so each of the {training} replicas trains alone"
        yield _first_call(sources, [name]).problem(message, f"to train one model together, use {MULTI_WORKER}")
    elif not chosen and _TRAINS.intersection(words) and not _CONNECTS.intersection(words):
        message = f"the program uses no distribution strategy, so each of the {training} replicas trains alone"
        hint = f"to train one model together, use tf.distribute.{MULTI_WORKER}"
        yield _Place(sources[0].file).problem(message, hint)


def _unsupported_fit(
    sources: Sequence[Source], words: Collection[str], chosen: set[str], keras: int | None
) -> Iterator[Problem]:
    if PARAMETER_SERVER not in chosen or "ClusterCoordinator" in words or _LEGACY_KERAS.intersection(words):
        return
    strategy, fit = _first_call(sources, [PARAMETER_SERVER, "ParameterServerStrategyV2"]), _first_call(sources, ["fit"])
    if fit.line and (keras is None or keras >= KERAS_3):
        known = next(one for one in KNOWN_ERRORS if one.name == "keras-parameter-server")
        is_sure = keras is not None and len(chosen) == 1 and min(strategy.runs, fit.runs) >= Runs.IN_A_ROLE
        hint = known.remedy.removesuffix(".")
        yield fit.problem(known.cause.removesuffix("."), hint[:1].lower() + hint[1:], is_sure=is_sure)


def _first_call(sources: Sequence[Source], names: Collection[str]) -> _Place:
    """Return the call that runs most surely; without a call, the main program."""
    found = [
        _Place(source.file, use.line, use.column, min(use.runs, source.runs))
        for source in sources
        for use in source.program.calls
        if use.name in names
    ]
    return max(found, key=lambda place: place.runs, default=_Place(sources[0].file))
