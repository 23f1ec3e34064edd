"""Measure the model server: every goal with its stretch goal next to the measured value, in one run.

    python bench/serve.py [--only cnn,small] [--rounds 5] [--seconds 1.5]

Rates are ratios to a floor: the signature through the server's engine in one process, with the same batches. The
reference is a server that uses grpcio and Python's TensorFlow. Floor and servers take turns, and a ratio is the median
of all rounds. The load (h2load, Debian's nghttp2-client) shares the cores with the server, on loopback. If a goal is
missed, a profile shows where the time goes. A whole run takes less than ten minutes. This is not a test.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median

from serving import lifecycle, profiles
from serving.servers import HERE, Floor, Load, Request, Server, check_tools, ours, reference


@dataclass(frozen=True)
class Goal:
    """What to reach: at least `bound`, or at most `bound` if `is_limit`."""

    text: str
    bound: float
    stretch: float | None = None
    is_limit: bool = False
    unit: str = ""

    def verdict(self, value: float, bound: float) -> str:
        reached = value <= bound if self.is_limit else value >= bound
        return f"{'at most' if self.is_limit else 'at least'} {bound:g}{self.unit} {'reached' if reached else 'MISSED'}"


def limit(text: str, bound: float, stretch: float | None = None, unit: str = "") -> Goal:
    return Goal(text, bound, stretch, is_limit=True, unit=unit)


GOALS = {
    "cnn": {
        "1": Goal("gRPC, CNN, batch 1, 1 connection, of the floor", 0.45, 0.5),
        "8": Goal("gRPC, CNN, batch 1, 8 connections, of the floor", 0.9, 1.1),
        "64": Goal("gRPC, CNN, batch 1, 64 connections, of the floor", 0.8, 1.1),
        "32": Goal("gRPC, CNN, batch 32, 8 connections, of the floor", 0.88, 0.95),
    },
    "small": {
        "1": Goal("gRPC, small, batch 1, 8 connections, of the floor", 0.27, 0.5),
        "32": Goal("gRPC, small, batch 32, 8 connections, of the floor", 0.55, 0.9),
    },
    "reference": {
        "rate": Goal("gRPC, small, batch 1, 8 connections, rate of the reference", 1.8),
        "cpu": limit("the same, CPU per request of the reference", 0.6),
    },
    "rest": {
        "1": Goal("REST, small, batch 1, 1 connection, of the floor", 0.22),
        "8": Goal("REST, small, batch 1, 8 connections, of the floor", 0.36, 0.5),
        "64": Goal("REST, small, batch 1, 64 connections, of the floor", 0.65),
    },
    "lone": {"p50": limit("a lone request, p50 with batching of that without", 1.05)},
    "engine": {"call": limit("a call of the engine of that of a C program, small, batch 1", 3, 2)},
    "start": {
        "server": limit("start of the server to its first reply", 1.5, unit=" s"),
        "tool": limit("start of `tfjob serve` to its first reply", 2.5, unit=" s"),
        "ratio": limit("start of the server of that of the reference", 0.2),
    },
    "version": {"seconds": limit("a newer version, from its rename to its first reply, slowest of 5", 2.5, unit=" s")},
    "memory": {
        "used": limit("anonymous memory with 98 MB of weights (80 MB + 1.2 x weights)", 197.6, unit=" MB"),
        "growth": limit("growth in 25 cycles of load and unload of 98 MB", 10, unit=" MB"),
    },
    "idle": {"memory": limit("anonymous memory of 10,000 idle connections", 150, unit=" MB")},
    "switch": {"failures": limit("failed requests of at least 5,000 across 20 switches", 0)},
    "lines": {"engine": limit("lines of engine.py, the only low-level code", 250)},
}
PROFILED = {
    "cnn": {
        "1": (Request("cnn"), 1),
        "8": (Request("cnn"), 8),
        "64": (Request("cnn"), 64),
        "32": (Request("cnn", 32), 8),
    },
    "small": {"1": (Request("small"), 8), "32": (Request("small", 32), 8)},
    "reference": {"rate": (Request("small"), 8), "cpu": (Request("small"), 8)},
    "rest": {str(c): (Request("small", is_rest=True), c) for c in (1, 8, 64)},
    "lone": {"p50": (Request("small"), 1)},
}
"""The requests and connections of goals whose profile is that of a load."""
Cells = dict[str, Callable[[], Load]]


@dataclass
class Bench:
    """The models, and how long to measure."""

    models: Path
    rounds: int
    seconds: float

    def server(self, model: str, *flags: str) -> Server:
        return Server(ours(self.models / model, *flags), model)

    def floor(self, model: str) -> Floor:
        return Floor(self.models / model / "1")

    def turns(self, cells: Cells) -> dict[str, list[Load]]:
        """Measure each cell once a round, in an order that changes; print the medians."""
        found: dict[str, list[Load]] = {name: [] for name in cells}
        for number in range(self.rounds + 1):  # the first round fills the caches
            for name in sorted(cells, reverse=bool(number % 2)):
                load = cells[name]()
                if number:
                    found[name].append(load)
        for name in cells:
            rate, p50, cpu = (median(getattr(load, what) for load in found[name]) for what in ("rate", "p50", "cpu"))
            print(f"  {name:28} {rate:8.0f}/s   p50 {p50 / 1e3:8.3f} ms   CPU {cpu:6.0f} us", flush=True)
        return found


def ratio(found: dict[str, list[Load]], one: str, other: str, what: str = "rate") -> float:
    return median(getattr(a, what) / getattr(b, what) for a, b in zip(found[one], found[other], strict=True))


def cnn(bench: Bench) -> dict[str, float]:
    with bench.server("cnn") as server, bench.floor("cnn") as floor:
        cells: Cells = {
            f"{c:02} connections": lambda c=c: server.load(Request("cnn"), c, bench.seconds) for c in (1, 8, 64)
        }
        cells["batch 32, 8 connections"] = lambda: server.load(Request("cnn", 32), 8, bench.seconds)
        cells["floor, batch 1"] = lambda: floor.load(1, bench.seconds)
        cells["floor, batch 32"] = lambda: floor.load(32, bench.seconds)
        found = bench.turns(cells)
    values = {str(c): ratio(found, f"{c:02} connections", "floor, batch 1") for c in (1, 8, 64)}
    return values | {"32": ratio(found, "batch 32, 8 connections", "floor, batch 32")}


def small(bench: Bench) -> dict[str, float]:
    with bench.server("small") as server, bench.floor("small") as floor:
        cells: Cells = {}
        for batch in (1, 32):
            cells[f"batch {batch}, 8 connections"] = lambda b=batch: server.load(Request("small", b), 8, bench.seconds)
            cells[f"floor, batch {batch}"] = lambda b=batch: floor.load(b, bench.seconds)
        found = bench.turns(cells)
    return {str(b): ratio(found, f"batch {b}, 8 connections", f"floor, batch {b}") for b in (1, 32)}


def compared(bench: Bench) -> dict[str, float]:
    """Compare with the reference."""
    other = Server(reference(bench.models / "small/1"), "small", {"TF_CPP_MIN_LOG_LEVEL": "3"})
    with other, bench.server("small") as server:
        found = bench.turns(
            {
                "server": lambda: server.load(Request("small"), 8, bench.seconds),
                "reference": lambda: other.load(Request("small"), 8, bench.seconds),
            }
        )
    return {what: ratio(found, "server", "reference", what) for what in ("rate", "cpu")}


def rest(bench: Bench) -> dict[str, float]:
    request = Request("small", is_rest=True)
    with bench.server("small") as server, bench.floor("small") as floor:
        cells: Cells = {f"{c:02} connections": lambda c=c: server.load(request, c, bench.seconds) for c in (1, 8, 64)}
        cells["floor"] = lambda: floor.load(1, bench.seconds)
        found = bench.turns(cells)
    return {str(c): ratio(found, f"{c:02} connections", "floor") for c in (1, 8, 64)}


def lone(bench: Bench) -> dict[str, float]:
    with bench.server("small") as on, bench.server("small", "--enable_batching=false") as off:
        found = bench.turns(
            {
                "with batching": lambda: on.load(Request("small"), 1, bench.seconds),
                "without": lambda: off.load(Request("small"), 1, bench.seconds),
            }
        )
    return {"p50": ratio(found, "with batching", "without", "p50")}


def engine(bench: Bench) -> dict[str, float]:
    program = lifecycle.c_program(bench.models.parent)
    if program is None:
        print("  no C compiler: not measured")
        return {}
    with bench.floor("small") as floor:
        cells: Cells = {
            "engine": lambda: floor.load(1, bench.seconds),
            "C program": lambda: Load(0, lifecycle.c_call(program, bench.models / "small/1"), 0),
        }
        found = bench.turns(cells)
        print(f"  TensorFlow's function takes {floor.inside:.0f} us of a call of the engine")
    return {"call": ratio(found, "engine", "C program", "p50")}


def start(bench: Bench) -> dict[str, float]:
    taken: dict[str, list[float]] = {"server": [], "tool": [], "reference": []}
    for _ in range(3):
        for name, seconds in lifecycle.starts(bench.models):
            taken[name].append(seconds)
    for name, seconds in taken.items():
        print(f"  {name:10} {', '.join(f'{one:.2f}' for one in seconds)} s", flush=True)
    ratios = [one / other for one, other in zip(taken["server"], taken["reference"], strict=True)]
    return {"server": median(taken["server"]), "tool": median(taken["tool"]), "ratio": median(ratios)}


def newer(bench: Bench) -> dict[str, float]:
    taken = lifecycle.newer_versions(bench.models)
    print(f"  {', '.join(f'{one:.2f}' for one in taken)} s")
    return {"seconds": max(taken)}


def memory(bench: Bench) -> dict[str, float]:
    used = lifecycle.cycles(bench.models)
    print(f"  {', '.join(f'{one:.0f}' for one in used)} MB")
    return {"used": used[0], "growth": max(used) - used[0]}


def idle(bench: Bench) -> dict[str, float]:
    with bench.server("small") as server:
        return {"memory": lifecycle.idle_connections(server)}


def switch(bench: Bench) -> dict[str, float]:
    sent, failed = lifecycle.switches(bench.models)
    print(f"  {sent} requests, {failed} failed")
    return {"failures": failed}


def lines(bench: Bench) -> dict[str, float]:
    source = HERE.parents[1] / "src" / "tfjob" / "serve" / "engine.py"
    return {"engine": len(source.read_text().splitlines())}


MEASURE: dict[str, Callable[[Bench], dict[str, float]]] = {
    "cnn": cnn,
    "small": small,
    "reference": compared,
    "rest": rest,
    "lone": lone,
    "engine": engine,
    "start": start,
    "version": newer,
    "memory": memory,
    "idle": idle,
    "switch": switch,
    "lines": lines,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help=f"comma-separated: {', '.join(GOALS)}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.5, help="of each load in a round")
    options = parser.parse_args()
    wanted = options.only.split(",") if options.only else list(GOALS)
    if unknown := set(wanted) - set(GOALS):
        parser.error(f"unknown goals: {', '.join(sorted(unknown))}")
    check_tools()
    print_machine()
    rows = []
    with tempfile.TemporaryDirectory(prefix="tfjob-bench-") as name:
        bench = Bench(Path(name, "models"), options.rounds, options.seconds)
        export(bench.models)
        for group in wanted:
            print(f"{group}:", flush=True)
            values = MEASURE[group](bench)
            rows += [(group, key, value) for key, value in values.items()]
            missed = [key for key, value in values.items() if "MISSED" in verdict(group, key, value)]
            for request, connections in {PROFILED[group][key] for key in missed if key in PROFILED.get(group, {})}:
                profiles.show(bench.models / request.model, request, connections, bench.seconds)
            if group == "start" and missed:
                profiles.show_imports()
    print()
    for group, key, value in rows:
        goal = GOALS[group][key]
        further = f"; stretch: {goal.verdict(value, goal.stretch)}" if goal.stretch is not None else ""
        print(f"{goal.text:72} {value:7.2f}{goal.unit}   {verdict(group, key, value)}{further}")
    print_machine()


def verdict(group: str, key: str, value: float) -> str:
    goal = GOALS[group][key]
    return goal.verdict(value, goal.bound)


def export(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "export.py"), str(folder)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(done.stderr)


def print_machine() -> None:
    packages = ", ".join(f"{name} {version(name)}" for name in ("grpcio", "aiohttp", "protobuf", "numpy"))
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    print(f"{os.cpu_count()} cores, load averages {load}, nice {os.nice(0)}, {packages}", flush=True)


if __name__ == "__main__":
    main()
