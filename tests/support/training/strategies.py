"""Which Keras trains with which strategy: the table of the guide, and what tests/programs/strategies.py must do."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[3]
TRAINS, LAYER, FAILS = "trains", "trains, with tfjob's [layer](#what-the-layer-does)", "fails, with advice"
KERAS, LEGACY = "keras", "tf_keras"
"""The libraries, as their modules are called."""


class Strategy(NamedTuple):
    """The name of a strategy, the replicas of its job in words, and the options of `tfjob run` that request them."""

    name: str
    replicas: str
    options: tuple[str, ...] = ()


class Cell(NamedTuple):
    """A combination, with the arguments of the program, and whether it trains."""

    strategy: str
    loop: str
    library: str
    outcome: str


STRATEGIES = {
    "none": Strategy("none", "worker"),
    "mirrored": Strategy("MirroredStrategy", "worker with two devices"),
    "multi-worker": Strategy(
        "MultiWorkerMirroredStrategy", "chief, worker, evaluator", ("--chief", "--workers", "1", "--evaluator", "1")
    ),
    "parameter-server": Strategy(
        "ParameterServerStrategy",
        "chief, worker, PS, evaluator",
        ("--chief", "--workers", "1", "--ps", "1", "--evaluator", "1"),
    ),
}
LOOPS = {"fit": "`fit`", "custom": "custom loop"}
SPECIAL = {("multi-worker", "fit", KERAS): LAYER, ("parameter-server", "fit", KERAS): FAILS}
"""The combinations that do not simply train."""
CELLS = [
    Cell(strategy, loop, library, SPECIAL.get((strategy, loop, library), TRAINS))
    for strategy in STRATEGIES
    for loop in LOOPS
    for library in (KERAS, LEGACY)
]


def table() -> str:
    """Return the table of the guide, with the versions of the lock file, in which the tests ran the combinations."""
    locked = {one["name"]: one["version"] for one in tomllib.loads((ROOT / "uv.lock").read_text())["package"]}
    outcomes = {cell[:3]: cell.outcome for cell in CELLS}
    lines = [
        f"With TensorFlow {locked['tensorflow-cpu']}:",
        "",
        f"| strategy | program | replicas | Keras {locked['keras']} | tf_keras {locked['tf-keras']} |",
        "|---|---|---|---|---|",
    ]
    for strategy, (name, replicas, _) in STRATEGIES.items():
        for loop, program in LOOPS.items():
            found = " | ".join(outcomes[strategy, loop, library] for library in (KERAS, LEGACY))
            lines.append(f"| {name} | {program} | {replicas} | {found} |")
    return "\n".join(lines) + "\n"
