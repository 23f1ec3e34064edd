"""Ordinary Keras code in one process: tfjob run tfjob.yaml, or python train.py --data ../mnist/data"""

import argparse
import gzip
import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # before TensorFlow is imported

import numpy as np
import tensorflow as tf


def main():
    parser = argparse.ArgumentParser(description="Train a small digit reader in one process.")
    parser.add_argument("--data", type=Path, required=True, help="folder with the MNIST files")
    args = parser.parse_args()

    print("TF_CONFIG is", os.environ.get("TF_CONFIG", "not set: this process is alone"), flush=True)
    tf.keras.utils.set_random_seed(1)
    model = tf.keras.Sequential(
        [
            tf.keras.Input((28, 28)),
            tf.keras.layers.Rescaling(1 / 255),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(64, activation="relu"),
            tf.keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(*load(args.data, "train"), batch_size=64, epochs=5, verbose=2)
    _, accuracy = model.evaluate(*load(args.data, "t10k"), verbose=0)
    print(f"test accuracy {accuracy:.4f}")


def load(folder, part):
    """Read images (n, 28, 28) and labels (n,) of "train" or "t10k" from MNIST's file format."""
    with gzip.open(folder / f"{part}-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 28, 28)
    with gzip.open(folder / f"{part}-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    return images, labels


if __name__ == "__main__":
    main()
