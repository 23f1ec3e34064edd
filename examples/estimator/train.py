"""Handwritten digits with an Estimator (train_and_evaluate), for programs that still have one: see README.md.

TensorFlow 2.15 is the last version with Estimators. RunConfig reads TF_CONFIG, which tfjob sets, and by it this process
knows what to do:

    master            trains, writes checkpoints and, between them, measures them
    chief, evaluator  the same as two processes: one trains, the other follows the checkpoints
    worker            trains
    ps                holds the variables

What a run leaves under --output: checkpoints and curves (`eval/` has those of the measurements), and the trained model
as a SavedModel under export/final.
"""

import argparse
import gzip
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # before TensorFlow is imported

import numpy as np
import tensorflow as tf

DATA = Path(__file__).parents[1] / "mnist" / "data"
PATIENCE = 120

tf.get_logger().setLevel("ERROR")


def main():
    parser = argparse.ArgumentParser(description="Train a digit reader with tf.estimator.train_and_evaluate.")
    parser.add_argument("--data", type=Path, default=DATA, help="folder with the MNIST files")
    parser.add_argument("--output", type=Path, required=True, help="folder that all processes share")
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
    if config.task_type == "chief":
        wait_for_model(args.output / "export" / "final")
    if config.is_chief:
        print(f"test accuracy {reader.evaluate(lambda: batches(args.data, 't10k'))['accuracy']:.4f}", flush=True)
    sys.stdout.flush()
    os._exit(0)  # the server in this process would not let it end


def wait_for_model(folder):
    """Wait for the evaluator, which measures the last checkpoint and exports the model: the job ends with the chief."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and not list(folder.glob("[0-9]*/saved_model.pb")):
        time.sleep(0.5)


def batches(folder, part):
    """Images in 0..1 and labels of "train" or "t10k" from MNIST's own file format."""
    with gzip.open(folder / f"{part}-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 28 * 28)
    with gzip.open(folder / f"{part}-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    data = ({"pixels": images / np.float32(255)}, labels.astype(np.int64))
    return tf.data.Dataset.from_tensor_slices(data).batch(64)


if __name__ == "__main__":
    main()
