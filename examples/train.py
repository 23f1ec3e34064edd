"""The program of the sample image: it selects the training by TF_CONFIG and passes its arguments on.

Without other processes in the cluster it runs retrain/train.py, otherwise between-graph/train.py.
"""

import json
import os
import sys
from pathlib import Path

STEPS = ("--steps", "500")  # the same as in tfjob.toml for tf-sample; a later argument overrides it


def main():
    cluster = json.loads(os.environ.get("TF_CONFIG") or "{}").get("cluster", {})
    alone = sum(len(addresses) for addresses in cluster.values()) < 2
    example, words = ("retrain", ()) if alone else ("between-graph", STEPS)
    program = Path(__file__).resolve().parent / example / "train.py"
    # Replace this process: it is the first one of its container and receives the signals.
    os.execv(sys.executable, [sys.executable, str(program), *words, *sys.argv[1:]])


if __name__ == "__main__":
    main()
