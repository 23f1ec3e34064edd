"""Learn to read handwritten digits: alone, or as one of many processes that tfjob starts.

    python train.py --data data      # alone
    tfjob run tfjob.yaml             # chief, worker and evaluator

tfjob sets the environment variable TF_CONFIG, which contains the role of the process and the addresses of all. Chief
and workers train one model together (MultiWorkerMirroredStrategy): each computes its share of every batch, and all
apply the same sum of gradients. The evaluator tests each checkpoint. A run writes to folders that tfjob keeps after the
job:

    $TFJOB_CHECKPOINT_DIR     checkpoints, every --checkpoint-every steps; a restart resumes from the last one
    $TFJOB_OUTPUT_DIR/logs    curves for TensorBoard, one folder per process
    $TFJOB_OUTPUT_DIR/model   the trained model (SavedModel) in version 1, written by the chief at the end
"""

import argparse
import gzip
import json
import os
import shutil
import signal
import sys
import threading
import time
from pathlib import Path


def end_on_sigterm():
    """End on SIGTERM. TensorFlow's handler only records the signal and keeps training.

    While TensorFlow waits for its peers, only SIGKILL ends it. The manifest therefore has a short grace period.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    threading.Thread(target=lambda: os._exit(128 + signal.sigwait({signal.SIGTERM})), daemon=True).start()


# Do both before the import of TensorFlow, which starts threads and reads the log level.
end_on_sigterm()
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from tfjob_export import export  # noqa: E402

tf.get_logger().setLevel("ERROR")


def main():
    parser = argparse.ArgumentParser(description="Train a digit reader.")
    parser.add_argument("--data", type=Path, required=True, help="folder with the MNIST files")
    parser.add_argument("--checkpoints", type=Path, default=folder("CHECKPOINT"), help="folder shared by all processes")
    parser.add_argument("--output", type=Path, default=folder("OUTPUT"), help="folder for model and curves")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch", type=int, default=128, help="images per step, over all processes")
    parser.add_argument("--checkpoint-every", type=int, default=100, help="steps")
    args = parser.parse_args()

    config = json.loads(os.environ.get("TF_CONFIG", "{}"))
    task = config.get("task", {"type": "chief", "index": 0})
    print(f"{task['type']} {task['index']} with TensorFlow {tf.__version__}", flush=True)
    tf.keras.utils.set_random_seed(1)
    if task["type"] == "evaluator":
        evaluate(args)
    else:
        try:
            train(args, config.get("cluster", {}), task)
        except (tf.errors.UnavailableError, tf.errors.AbortedError) as error:
            # No process can train without the others: all must restart from the last checkpoint.
            print(f"lost the connection to another process; exiting ({type(error).__name__})")
            leave(1)


def folder(name):
    """Return a folder that tfjob keeps for the job; without tfjob, one in the current folder."""
    return os.environ.get(f"TFJOB_{name}_DIR", f"digits/{name.lower()}")


def train(args, cluster, task):
    leader = "chief" if "chief" in cluster or not cluster else "worker"
    is_chief = (task["type"], task["index"]) == (leader, 0)
    checkpoints = args.checkpoints
    if is_chief and (checkpoints / "finished").exists():
        print(f"the training in {checkpoints} is complete: starting a new one", flush=True)
        shutil.rmtree(args.output / "logs", ignore_errors=True)
        shutil.rmtree(checkpoints)

    # With peers, this waits until all of them are running, so all see what the chief did above.
    strategy = tf.distribute.MultiWorkerMirroredStrategy() if cluster else tf.distribute.get_strategy()
    with strategy.scope():
        model = make_model()
        optimizer = tf.keras.optimizers.Adam(1e-3)
        optimizer.build(model.trainable_variables)

    step = tf.Variable(0, dtype=tf.int64)
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer, step=step)
    latest = tf.train.latest_checkpoint(checkpoints)
    if latest:
        checkpoint.restore(latest).assert_consumed()
        print(f"resumed from step {int(step)}", flush=True)
    # Every process must save, because saving may communicate with the others; only the chief's files are kept.
    own = checkpoints if is_chief else Path(folder("SCRATCH"), "checkpoints")
    manager = tf.train.CheckpointManager(checkpoint, own, max_to_keep=3)

    images, labels = load(args.data, "train")

    def batches(context):
        data = tf.data.Dataset.from_tensor_slices((images, labels))
        data = data.shard(context.num_input_pipelines, context.input_pipeline_id)
        # Use another order after a restart, so that a resumed run does not repeat the first batches.
        data = data.shuffle(len(images), seed=int(step)).repeat()
        return data.batch(context.get_per_replica_batch_size(args.batch)).prefetch(2)

    @tf.function
    def train_step(iterator):
        def on_each_replica(images, labels):
            with tf.GradientTape() as tape:
                probabilities = model(images, training=True)
                losses = tf.keras.losses.sparse_categorical_crossentropy(labels, probabilities)
                loss = tf.reduce_sum(losses) / args.batch
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return loss, tf.reduce_sum(correct(labels, probabilities)) / args.batch

        result = strategy.run(on_each_replica, args=next(iterator))
        return [strategy.reduce("SUM", value, axis=None) for value in result]

    iterator = iter(strategy.distribute_datasets_from_function(batches))
    writer = tf.summary.create_file_writer(str(args.output / "logs" / f"{task['type']}-{task['index']}"))
    while int(step) < args.steps:
        loss, accuracy = train_step(iterator)
        step.assign_add(1)
        if int(step) % 20 == 0:
            write_scalars(writer, int(step), loss=loss, accuracy=accuracy)
        if int(step) % args.checkpoint_every == 0 or int(step) == args.steps:
            manager.save(checkpoint_number=int(step))
            print(f"step {int(step)}/{args.steps} loss {loss:.4f} accuracy {accuracy:.4f}", flush=True)

    if is_chief:
        print(f"model exported to {export_reader(model, args.output / 'model', step)}")
        print(f"test accuracy {test_accuracy(model, args.data):.4f}", flush=True)
        (checkpoints / "finished").touch()
    else:
        shutil.rmtree(own)
    leave(0)


def evaluate(args):
    """Evaluate each checkpoint as it appears, up to the last step."""
    model = make_model()
    step = tf.Variable(0, dtype=tf.int64)
    checkpoint = tf.train.Checkpoint(model=model, step=step)
    writer = None
    checkpoints = args.checkpoints
    # Ignore the files of a complete training: the chief is about to start a new one.
    seen = tf.train.latest_checkpoint(checkpoints) if (checkpoints / "finished").exists() else None
    while int(step) < args.steps:
        latest = tf.train.latest_checkpoint(checkpoints)
        if latest in (None, seen):
            time.sleep(1)
            continue
        checkpoint.restore(latest).expect_partial()
        accuracy = test_accuracy(model, args.data)
        writer = writer or tf.summary.create_file_writer(str(args.output / "logs" / "evaluator"))
        write_scalars(writer, int(step), accuracy=accuracy)
        print(f"step {int(step)}/{args.steps} test accuracy {accuracy:.4f}", flush=True)
        seen = latest
    leave(0)


def leave(code):
    """Exit immediately; Python's normal exit waits up to half a minute while TensorFlow watches its peers."""
    sys.stdout.flush()
    os._exit(code)


def make_model():
    return tf.keras.Sequential(
        [
            tf.keras.Input((28, 28)),
            tf.keras.layers.Rescaling(1 / 255),
            tf.keras.layers.Reshape((28, 28, 1)),
            tf.keras.layers.Conv2D(16, 5, strides=2, activation="relu"),
            tf.keras.layers.MaxPooling2D(),
            tf.keras.layers.Conv2D(32, 3, activation="relu"),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(64, activation="relu"),
            tf.keras.layers.Dense(10, activation="softmax"),
        ]
    )


def load(folder, part):
    """Read images (n, 28, 28) and labels (n,) of "train" or "t10k" from MNIST's file format."""
    with gzip.open(folder / f"{part}-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 28, 28)
    with gzip.open(folder / f"{part}-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    return images, labels.astype(np.int64)


def correct(labels, probabilities):
    return tf.cast(labels == tf.argmax(probabilities, axis=1), tf.float32)


def test_accuracy(model, folder):
    images, labels = load(folder, "t10k")
    return float(tf.reduce_mean(correct(labels, model(images))))


def write_scalars(writer, step, **values):
    """Do what tf.summary.scalar does, without the package tensorboard (TensorFlow 2.21 does not install it)."""
    metadata = tf.compat.v1.SummaryMetadata(plugin_data={"plugin_name": "scalars"})
    with writer.as_default(step):
        for name, value in values.items():
            tf.summary.write(name, tf.cast(value, tf.float32), metadata=metadata)
    writer.flush()


def export_reader(model, folder, step):
    """Write the next version of the model: it gets images of 0 to 255, and returns digits and their probabilities."""
    images = tf.TensorSpec([None, 28, 28], tf.uint8)
    read = {"inputs": {"images": images}, "outputs": lambda p: {"digits": tf.argmax(p, axis=1), "probabilities": p}}
    return export(model, folder, step=step, **read)


if __name__ == "__main__":
    main()
