"""The program of the sample image: it trains as its TF_CONFIG says, and hands its arguments on.

Alone it is retrain/train.py; with other processes in the cluster it is between-graph/train.py.
"""

import json
import os
import sys
from pathlib import Path

STEPS = ("--steps", "500")  # as tfjob.toml has it for tf-sample; an argument that follows says otherwise


def main():
    cluster = json.loads(os.environ.get("TF_CONFIG") or "{}").get("cluster", {})
    alone = sum(len(addresses) for addresses in cluster.values()) < 2
    example, words = ("retrain", ()) if alone else ("between-graph", STEPS)
    program = Path(__file__).resolve().parent / example / "train.py"
    # In the place of this process: it is the first of its container, and gets the signals.
    os.execv(sys.executable, [sys.executable, str(program), *words, *sys.argv[1:]])


if __name__ == "__main__":
    main()
