"""In the place of the sample that retrains: prints its last lines and leaves its files, without TensorFlow."""

import argparse
import os
from datetime import datetime
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=500)
last = parser.parse_args().steps - 1

files = Path(os.environ["TF_FILES"])
for folder in ("model", "training_summaries"):
    (files / folder).mkdir()
(files / "labels.txt").touch()
for text in ("Train accuracy = 94.0%", "Cross entropy = 0.170348", "Validation accuracy = 89.0% (N=100)"):
    print(f"INFO:tensorflow:{datetime.now()}: Step {last}: {text}")
print("INFO:tensorflow:Final test accuracy = 88.4% (N=353)")
