"""The floor of a server: the signature of a model through the server's engine, in one process, without a network.

    python floor.py FOLDER

Each line on stdin, `BATCH SECONDS`, is answered by `CALLS_PER_SECOND P50 CPU RUN`. The last three are microseconds per
call: the median, the CPU time, and how long TensorFlow's own function takes, the rest being the engine's.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from tfjob.serve import engine, savedmodel


def main(folder: Path) -> None:
    signature = savedmodel.read(folder).signatures["serving_default"]
    session = engine.load(folder)
    (given,) = signature.inputs.values()
    wanted = [spec.name for spec in signature.outputs.values()]
    library: Any = engine._library()
    plain = library.SessionRun
    inside: list[float] = []

    def timed(*arguments: object) -> Any:
        begun = time.perf_counter()
        try:
            return plain(*arguments)
        finally:
            inside.append(time.perf_counter() - begun)

    for line in sys.stdin:
        batch, seconds = line.split()
        images = np.random.default_rng(0).integers(0, 255, (int(batch), 28, 28), dtype=np.uint8)
        for _ in range(10):
            session.run({given.name: images}, wanted)
        taken = []
        end, cpu = time.perf_counter() + float(seconds), time.process_time()
        while (begun := time.perf_counter()) < end:
            session.run({given.name: images}, wanted)
            taken.append(time.perf_counter() - begun)
        cpu = time.process_time() - cpu
        library.SessionRun = timed
        inside.clear()
        for _ in range(100):
            session.run({given.name: images}, wanted)
        library.SessionRun = plain
        rate = len(taken) / sum(taken)
        print(rate, median(taken) * 1e6, cpu / len(taken) * 1e6, median(inside) * 1e6, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
