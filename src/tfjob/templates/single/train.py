"""Train a classifier for points on a spiral: ordinary Keras code in one process.

    tfjob run tfjob.yaml      or: python train.py

An interrupted run resumes after the last complete epoch. The data is generated: replace `spiral` with your own.
"""

import argparse
import os
import shutil
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # before the import of TensorFlow

import numpy as np
import tensorflow as tf

# tfjob sets these if the volume tfjob-data is mounted. Without it, everything goes to the current folder.
CHECKPOINTS = Path(os.environ.get("TFJOB_CHECKPOINT_DIR") or "checkpoints")
OUTPUT = Path(os.environ.get("TFJOB_OUTPUT_DIR") or "output")
CLASSES = 5


def main():
    parser = argparse.ArgumentParser(description="Train a classifier for points on a spiral.")
    parser.add_argument("--epochs", type=int, default=150)
    parser.add_argument("--batch", type=int, default=64, help="points per step")
    args = parser.parse_args()

    tf.keras.utils.set_random_seed(1)
    layers = [tf.keras.layers.Dense(64, activation="relu") for _ in range(2)]
    model = tf.keras.Sequential([tf.keras.Input((2,)), *layers, tf.keras.layers.Dense(CLASSES)])
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=tf.keras.optimizers.Adam(1e-3), loss=loss, metrics=["accuracy"])
    CHECKPOINTS.mkdir(parents=True, exist_ok=True)
    callbacks = [tf.keras.callbacks.BackupAndRestore(str(CHECKPOINTS)), Report(args.epochs)]
    model.fit(*spiral(3000), batch_size=args.batch, epochs=args.epochs, verbose=0, callbacks=callbacks)
    model.export(str(OUTPUT / "model"), verbose=False)
    print(f"model saved in {OUTPUT / 'model'}", flush=True)


class Report(tf.keras.callbacks.Callback):
    """Prints a line per epoch and writes summaries for TensorBoard."""

    def __init__(self, epochs):
        super().__init__()
        self.epochs = epochs
        self.writer = None

    def on_epoch_begin(self, epoch, logs=None):
        if self.writer:
            return
        if epoch:
            print(f"resumed after epoch {epoch}", flush=True)
        else:
            shutil.rmtree(OUTPUT / "logs", ignore_errors=True)  # of an earlier training
        self.writer = tf.summary.create_file_writer(str(OUTPUT / "logs"))

    def on_epoch_end(self, epoch, logs=None):
        write_scalars(self.writer, epoch + 1, **logs)
        print(f"epoch {epoch + 1}/{self.epochs} loss {logs['loss']:.4f} accuracy {logs['accuracy']:.4f}", flush=True)


def spiral(count):
    """Return points on a spiral (count, 2) and the number of the arm of each (count,)."""
    random = np.random.default_rng(1)
    arms = np.arange(count) % CLASSES
    radius = random.uniform(0.1, 1, count)
    angle = 6 * radius + 2 * np.pi * arms / CLASSES + random.normal(0, 0.2, count)
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return points.astype(np.float32), arms.astype(np.int64)


def write_scalars(writer, step, **values):
    """Replace tf.summary.scalar, which requires the package tensorboard."""
    metadata = tf.compat.v1.SummaryMetadata(plugin_data={"plugin_name": "scalars"})
    with writer.as_default(step):
        for name, value in values.items():
            tf.summary.write(name, tf.cast(value, tf.float32), metadata=metadata)
    writer.flush()


if __name__ == "__main__":
    main()
