"""Measure the launch of forked replicas, as a ratio to a bare shell loop that starts them cold.

    python bench/warm.py [--pairs 9]

The job and the loop are those of bench/launch.py, with warm starts and a running fork server. They take turns. This is
not a test.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from launch import STAMP, TFJOB, TRAINING, loop, tool

BOUND = 0.25


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=9)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tfjob-bench-") as name:
        folder = Path(name)
        os.environ["TFJOB_HOME"] = str(folder / "home")
        (folder / "tfjob.toml").write_text("[local]\nwarm = true\n")
        program = folder / "train.py"
        program.write_text(TRAINING + STAMP)
        try:
            print(f"the first run, which starts the fork server: {tool(folder, program):.3f} s")
            loop(folder, program)  # run once to fill the caches, as the tool did
            pairs = []
            for number in range(options.pairs):
                ways = (tool, loop) if number % 2 else (loop, tool)
                taken = {way: way(folder, program) for way in ways}
                pairs.append((taken[tool], taken[loop]))
                print(f"  warm {taken[tool]:6.3f} s   loop {taken[loop]:6.3f} s   {taken[tool] / taken[loop]:.2f}")
            check_starts()
        finally:
            end_fork_servers()
    warm, bare = (statistics.median(side) for side in zip(*pairs, strict=True))
    ratio = statistics.median(one / other for one, other in pairs)
    print(f"medians of {len(pairs)} pairs: warm {warm:.3f} s, loop {bare:.3f} s")
    print(f"ratio {ratio:.2f} (at most {BOUND}); load average {os.getloadavg()[0]:.1f}")


def check_starts() -> None:
    """Exit if a replica of the last job was not forked: the figures would mean nothing."""
    done = subprocess.run([*TFJOB, "status", "@latest", "-o", "json"], check=True, capture_output=True)
    starts = {replica["start"] for replica in json.loads(done.stdout)["replicas"]}
    if starts != {"warm"}:
        sys.exit(f"not all replicas were forked: {starts}")


def end_fork_servers() -> None:
    """End the fork servers, which would wait for the next run."""
    done = subprocess.run([*TFJOB, "doctor", "-o", "json"], check=True, capture_output=True)
    for server in json.loads(done.stdout)["forkServers"]:
        os.kill(server["pid"], signal.SIGTERM)
    time.sleep(0.2)


if __name__ == "__main__":
    main()
