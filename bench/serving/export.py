"""Writes the models of bench/serve.py into a folder: python export.py FOLDER.

All of them take uint8 images and return `probabilities` and `classes`. `small` has a hidden layer and 0.1 million
parameters, `cnn` two convolutions and 0.2 million. `large` is `small` with another variable of 98 MB.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

LARGE = 98_000_000
"""Bytes of the variable."""
random = np.random.default_rng(0)


def variable(*shape: int) -> tf.Variable:
    return tf.Variable(random.normal(scale=0.05, size=shape).astype(np.float32))


class Small(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.last = variable(784, 128), variable(128, 10)

    def logits(self, pixels: tf.Tensor) -> tf.Tensor:
        return tf.nn.relu(tf.reshape(pixels, [-1, 784]) @ self.hidden) @ self.last

    @tf.function(input_signature=[tf.TensorSpec([None, 28, 28], tf.uint8, "images")])
    def predict(self, images: tf.Tensor) -> dict[str, tf.Tensor]:
        probabilities = tf.nn.softmax(self.logits(tf.cast(images, tf.float32) / 255.0))
        return {"probabilities": probabilities, "classes": tf.argmax(probabilities, -1)}


class Cnn(Small):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = variable(3, 3, 1, 32), variable(3, 3, 32, 64)
        self.hidden, self.last = variable(7 * 7 * 64, 64), variable(64, 10)

    def logits(self, pixels: tf.Tensor) -> tf.Tensor:
        x = pixels[..., None]
        for kernel in (self.first, self.second):
            x = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(x, kernel, 1, "SAME")), 2, 2, "SAME")
        return tf.nn.relu(tf.reshape(x, [-1, 7 * 7 * 64]) @ self.hidden) @ self.last


class Large(Small):
    def __init__(self) -> None:
        super().__init__()
        self.rest = tf.Variable(random.random(LARGE // 4, np.float32))

    def logits(self, pixels: tf.Tensor) -> tf.Tensor:
        return super().logits(pixels) + self.rest[0]


if __name__ == "__main__":
    for name, model in {"small": Small(), "cnn": Cnn(), "large": Large()}.items():
        tf.saved_model.save(model, str(Path(sys.argv[1]) / name / "1"), signatures=model.predict)
