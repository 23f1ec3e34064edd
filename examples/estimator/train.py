"""Handwritten digits with an Estimator (train_and_evaluate), for older programs: see README.md.

TensorFlow 2.15 is the last version with Estimators. tfjob sets TF_CONFIG, and RunConfig reads the role of this process
from it:

    master            trains, writes checkpoints and evaluates them
    chief, evaluator  the same in two processes: one trains, the other evaluates the checkpoints
    worker            trains
    ps                holds the variables

A run writes to --output: checkpoints, curves (those of the evaluation in `eval/`), and the trained model as a
SavedModel in export/final.
"""

import argparse
import gzip
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # before TensorFlow is imported

import numpy as np
import tensorflow as tf

DATA = Path(__file__).parents[1] / "mnist" / "data"

tf.get_logger().setLevel("ERROR")


def main():
    parser = argparse.ArgumentParser(description="Train a digit reader with tf.estimator.train_and_evaluate.")
    parser.add_argument("--data", type=Path, default=DATA, help="folder with the MNIST files")
    parser.add_argument("--output", type=Path, required=True, help="folder shared by all processes")
    parser.add_argument("--steps", type=int, default=600, help="steps of all processes together")
    args = parser.parse_args()

    config = tf.estimator.RunConfig(model_dir=str(args.output), save_checkpoints_steps=200, tf_random_seed=1)
    print(f"{config.task_type} {config.task_id} with TensorFlow {tf.__version__}", flush=True)
    pixels = tf.feature_column.numeric_column("pixels", [28 * 28])
    reader = tf.estimator.DNNClassifier([64], [pixels], n_classes=10, optimizer="Adam", config=config)

    serving = tf.estimator.export.build_parsing_serving_input_receiver_fn(
        tf.feature_column.make_parse_example_spec([pixels])
    )
    tf.estimator.train_and_evaluate(
        reader,
        tf.estimator.TrainSpec(lambda: batches(args.data, "train").repeat().shuffle(1000), max_steps=args.steps),
        tf.estimator.EvalSpec(
            lambda: batches(args.data, "t10k"),
            steps=None,
            exporters=tf.estimator.FinalExporter("final", serving),
            start_delay_secs=0,
            throttle_secs=1,
        ),
    )
    if config.is_chief:
        print(f"test accuracy {reader.evaluate(lambda: batches(args.data, 't10k'))['accuracy']:.4f}", flush=True)
    sys.stdout.flush()
    os._exit(0)  # the server in this process would keep it running


def batches(folder, part):
    """Images in 0..1 and labels of "train" or "t10k" from MNIST's file format."""
    with gzip.open(folder / f"{part}-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 28 * 28)
    with gzip.open(folder / f"{part}-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    data = ({"pixels": images / np.float32(255)}, labels.astype(np.int64))
    return tf.data.Dataset.from_tensor_slices(data).batch(64)


if __name__ == "__main__":
    main()
