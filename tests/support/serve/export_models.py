"""Writes the SavedModels of the tests into a folder: one process that imports TensorFlow, for all of them.

    python export_models.py FOLDER

`half/1`, `half/2` and `half/3` compute x / 2 + 1, x / 2 + 2 and x / 2 + 3, with many signatures. `broken` lacks the
values of its variable. `gate` reads the file that a request names: a FIFO holds it until the test opens the other end.
`large` has 40 MB of variables. `digits` takes images. `means` reads digits: that with the closest mean image of MNIST.
"""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

MNIST = Path(__file__).parents[3] / "examples" / "mnist" / "data"
LARGE = 40_000_000
"""Bytes of the variables of `large`."""


class Half(tf.Module):
    """Half of a number plus the number of the version."""

    def __init__(self, version: int) -> None:
        super().__init__()
        self.offset = tf.Variable(float(version))

    def half(self, x):
        return x / 2.0 + self.offset

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "x")])
    def predict(self, x):
        return {"y": self.half(x), "offset": tf.zeros_like(x) + self.offset}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "inputs")])
    def classify(self, inputs):
        y = self.half(self.parse(inputs))
        labels = tf.where(y[:, None] > [2.0, 4.0], b"above", b"below")
        return {"classes": labels, "scores": tf.stack([y, -y], axis=1)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "inputs")])
    def regress(self, inputs):
        return {"outputs": self.half(self.parse(inputs))[:, None]}

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, "a"), tf.TensorSpec([None], tf.int64, "b")])
    def two_inputs(self, a, b):
        return {"sum": tf.reduce_sum(a, axis=1) + tf.cast(b, tf.float32)}

    @tf.function(input_signature=[tf.TensorSpec([], tf.string, "suffix"), tf.TensorSpec([None], tf.string, "words")])
    def strings(self, suffix, words):
        return {"joined": tf.strings.join([words, suffix]), "lengths": tf.strings.length(words), "suffix_bytes": suffix}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32, "index")])
    def pick(self, index):
        """Fails for an index that is not in the table; with others of its batch, if there are any."""
        return {"picked": tf.gather(tf.constant([10, 20, 30]), index)}

    @tf.function
    def every_type(self, **inputs):
        return {f"{name}_out": tf.identity(value) for name, value in inputs.items()}

    def parse(self, examples):
        return tf.io.parse_example(examples, {"x": tf.io.FixedLenFeature([], tf.float32)})["x"]


TYPES = ("float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
MORE_TYPES = ("bool", "string", "complex64", "complex128")


class Gate(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([], tf.string, "path")])
    def read(self, path):
        return {"content": tf.io.read_file(path)}


class Large(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.values = tf.Variable(np.random.default_rng(0).random(LARGE // 4, np.float32))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32, "index")])
    def pick(self, index):
        return {"value": tf.gather(self.values, index)}


class Digits(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        random = np.random.default_rng(1)
        self.hidden = tf.Variable(random.normal(size=(784, 128)).astype(np.float32))
        self.last = tf.Variable(random.normal(size=(128, 10)).astype(np.float32))

    @tf.function(input_signature=[tf.TensorSpec([None, 28, 28], tf.uint8, "images")])
    def predict(self, images):
        pixels = tf.reshape(tf.cast(images, tf.float32) / 255.0, [-1, 784])
        probabilities = tf.nn.softmax(tf.nn.relu(pixels @ self.hidden) @ self.last)
        return {"probabilities": probabilities, "classes": tf.argmax(probabilities, -1)}


class Means(tf.Module):
    """Reads digits without a training, by the distance to the mean image of each."""

    def __init__(self) -> None:
        super().__init__()
        with gzip.open(MNIST / "train-images-idx3-ubyte.gz") as file:
            images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784) / 255
        with gzip.open(MNIST / "train-labels-idx1-ubyte.gz") as file:
            labels = np.frombuffer(file.read(), np.uint8, offset=8)
        self.means = tf.Variable(np.stack([images[labels == one].mean(axis=0) for one in range(10)]), dtype=tf.float32)

    @tf.function(input_signature=[tf.TensorSpec([None, 784], tf.float32, "images")])
    def read(self, images):
        distances = tf.reduce_sum((images[:, None] / 255.0 - self.means) ** 2, axis=-1)
        return {"scores": tf.nn.softmax(-distances / 4)}


def main(folder: Path) -> None:
    for version in (1, 2, 3):
        export_half(folder / "half" / str(version), version)
    gate, large, digits = Gate(), Large(), Digits()
    tf.saved_model.save(gate, str(folder / "gate/1"), signatures=gate.read)
    tf.saved_model.save(large, str(folder / "large/1"), signatures=large.pick)
    tf.saved_model.save(digits, str(folder / "digits/1"), signatures=digits.predict)
    means = Means()
    signatures = {"predict_images": means.read, "serving_default": means.read}
    tf.saved_model.save(means, str(folder / "means/1"), signatures=signatures)
    export_half(folder / "broken/1", 1)
    for shard in (folder / "broken/1/variables").glob("variables.data-*"):
        shard.write_bytes(b"")


def export_half(folder: Path, version: int) -> None:
    half = Half(version)
    types = {name: tf.TensorSpec([None], name, name) for name in (*TYPES, *MORE_TYPES)}
    tf.saved_model.save(
        half,
        str(folder),
        signatures={
            "serving_default": half.predict,
            "classify": half.classify,
            "regress": half.regress,
            "two_inputs": half.two_inputs,
            "strings": half.strings,
            "pick": half.pick,
            "every_type": half.every_type.get_concrete_function(**types),
        },
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
