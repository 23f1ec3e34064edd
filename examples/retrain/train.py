"""Retrain the last layer of an image classifier: tfjob run tfjob.yaml, or python train.py --output /tmp/digits

Only the last layer learns. The layers below it are random filters, so there is nothing to download. Their output for an
image never changes and is computed once. A run writes:

    training_summaries/   TensorBoard curves: accuracy and cross entropy of training and validation
    labels.txt            the names of the classes
    model/                the trained model (SavedModel)
"""

import argparse
import gzip
import os
import shutil
import signal
import tempfile
import threading
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path


def end_on_sigterm():
    """End at once on SIGTERM, even as the first process of a container, where it has no effect by default."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    threading.Thread(target=lambda: os._exit(128 + signal.sigwait({signal.SIGTERM})), daemon=True).start()


# Do both before the import of TensorFlow, which starts threads and reads the log level.
end_on_sigterm()
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

FILES = Path(os.environ.get("TF_FILES", "/app/tf_files"))
DATA = Path(__file__).parents[1] / "mnist" / "data"
VALIDATION = 100
TEST = 353
FILTERS = 32
CURVES = ("train", "validation")

log = tf.get_logger()
log.setLevel("INFO")
log.propagate = False  # absl adds another handler above this one


def main():
    parser = argparse.ArgumentParser(description="Retrain the last layer of an image classifier.")
    parser.add_argument("--data", type=Path, default=DATA, help="folder with the MNIST files")
    parser.add_argument("--output", type=Path, default=FILES, help="folder for model and summaries")
    parser.add_argument("--steps", type=int, default=500, help="number of batches to train on")
    parser.add_argument("--batch", type=int, default=100, help="images per step")
    parser.add_argument("--learning-rate", type=float, default=0.1)
    args = parser.parse_args()

    np.random.seed(1)
    tf.random.set_seed(1)
    with folder_for_results(args.output) as output:
        train(args, output)


@contextmanager
def folder_for_results(wanted):
    """Return the folder to write to, without the curves of an earlier run.

    The default folder exists in an image, or if a volume is mounted there. If it does not exist, use the job's storage,
    and without that a temporary folder.
    """
    if wanted == FILES and not wanted.is_dir() and "TFJOB_OUTPUT_DIR" in os.environ:
        wanted = Path(os.environ["TFJOB_OUTPUT_DIR"])
    elif wanted == FILES and not wanted.is_dir():
        print(f"nothing is mounted at {wanted}: the files of this run are removed when it ends", flush=True)
        with tempfile.TemporaryDirectory(prefix="retrain-") as folder:
            yield Path(folder)
        return
    wanted.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(wanted / "training_summaries", ignore_errors=True)
    yield wanted


def train(args, output):
    extract = Features()
    images, labels = load(args.data, "train")
    train_x, train_y = extract.all_of(images), labels
    images, labels = load(args.data, "t10k")
    held_x, held_y = extract.all_of(images), labels
    test_x, test_y, validation_x, validation_y = held_x[:TEST], held_y[:TEST], held_x[TEST:], held_y[TEST:]

    last = LastLayer(train_x.shape[1], classes=10, rate=args.learning_rate)
    curves = {name: tf.summary.create_file_writer(str(output / "training_summaries" / name)) for name in CURVES}
    for step in range(args.steps):
        batch = np.random.choice(len(train_x), args.batch)
        last.learn(train_x[batch], train_y[batch])
        if step % 10 == 0 or step == args.steps - 1:
            accuracy, cross_entropy = last.measure(train_x[batch], train_y[batch])
            write_scalars(curves["train"], step, accuracy=accuracy, cross_entropy=cross_entropy)
            report(step, f"Train accuracy = {accuracy:.1%}")
            report(step, f"Cross entropy = {cross_entropy:.6f}")
            some = np.random.choice(len(validation_x), VALIDATION, replace=False)
            accuracy, cross_entropy = last.measure(validation_x[some], validation_y[some])
            write_scalars(curves["validation"], step, accuracy=accuracy, cross_entropy=cross_entropy)
            report(step, f"Validation accuracy = {accuracy:.1%} (N={VALIDATION})")

    (output / "labels.txt").write_text("".join(f"{digit}\n" for digit in range(10)))
    export(extract, last, output / "model")
    accuracy, _ = last.measure(test_x, test_y)
    log.info("Final test accuracy = %.1f%% (N=%d)", 100 * accuracy, len(test_y))


def report(step, text):
    log.info("%s: Step %d: %s", datetime.now(), step, text)


class Features(tf.Module):
    """Return the fixed layers: from images (n, 28, 28) of 0..255 to the input of the last layer."""

    def __init__(self):
        super().__init__()
        generator = tf.random.Generator.from_seed(1)
        self.filters = tf.Variable(generator.normal((7, 7, 1, FILTERS), stddev=0.3), trainable=False)

    @tf.function(input_signature=[tf.TensorSpec([None, 28, 28], tf.uint8)])
    def __call__(self, images):
        pixels = tf.cast(images, tf.float32)[..., None] / 255
        found = tf.nn.relu(tf.nn.conv2d(pixels, self.filters, strides=2, padding="SAME"))
        return tf.reshape(tf.nn.avg_pool2d(found, 3, 3, "SAME"), (-1, 5 * 5 * FILTERS))

    def all_of(self, images):
        """Return the features of many images, computed in parts: all at once would need half a gigabyte."""
        return np.concatenate([self(images[at : at + 1000]).numpy() for at in range(0, len(images), 1000)])


class LastLayer(tf.Module):
    """The layer that learns, with plain gradient descent."""

    def __init__(self, inputs, classes, rate):
        super().__init__()
        self.weights = tf.Variable(tf.zeros((inputs, classes)))
        self.biases = tf.Variable(tf.zeros(classes))
        self.rate = rate

    def __call__(self, features):
        return features @ self.weights + self.biases

    @tf.function
    def learn(self, features, labels):
        with tf.GradientTape() as tape:
            _, loss = self._judge(features, labels)
        variables = (self.weights, self.biases)
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            variable.assign_sub(self.rate * gradient)

    def measure(self, features, labels):
        """Accuracy and cross entropy."""
        return [float(value) for value in self._judge(features, labels)]

    def _judge(self, features, labels):
        logits = self(features)
        right = tf.equal(tf.argmax(logits, axis=1), tf.cast(labels, tf.int64))
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.cast(labels, tf.int32), logits)
        return tf.reduce_mean(tf.cast(right, tf.float32)), tf.reduce_mean(losses)


def write_scalars(writer, step, **values):
    """Do what tf.summary.scalar does, without the package tensorboard (TensorFlow 2.21 does not install it)."""
    metadata = tf.compat.v1.SummaryMetadata(plugin_data={"plugin_name": "scalars"})
    with writer.as_default(step):
        for name, value in values.items():
            tf.summary.write(name, tf.cast(value, tf.float32), metadata=metadata)
    writer.flush()


def export(extract, last, folder):
    """Write a SavedModel from images to digits, and replace an earlier one."""
    whole = tf.Module()
    whole.parts = [extract, last]

    @tf.function(input_signature=[tf.TensorSpec([None, 28, 28], tf.uint8, name="images")])
    def read_digits(images):
        return {"digits": tf.argmax(last(extract(images)), axis=1)}

    shutil.rmtree(folder, ignore_errors=True)
    log.setLevel("WARNING")  # the file names do not matter
    tf.saved_model.save(whole, folder, signatures={"serving_default": read_digits})
    log.setLevel("INFO")


def load(folder, part):
    """Read images (n, 28, 28) and labels (n,) of "train" or "t10k" from MNIST's file format."""
    with gzip.open(folder / f"{part}-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 28, 28)
    with gzip.open(folder / f"{part}-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    return images, labels


if __name__ == "__main__":
    main()
