"""Learn to read handwritten digits with parameter servers (ParameterServerStrategy): tfjob run tfjob.yaml

tfjob sets the environment variable TF_CONFIG, which contains the role of the process and the addresses of all:

    ps          holds the variables of the model
    worker      computes gradients independently and applies them to the variables on the ps
    chief       hands out the steps, saves the checkpoints, exports the model
    evaluator   tests each checkpoint

If a worker is lost, the others take over its steps. If a ps is lost, its variables are lost too, and the chief restarts
from the last checkpoint. A run writes to folders that tfjob keeps after the job:

    $TFJOB_CHECKPOINT_DIR     checkpoints, every --checkpoint-every steps; a restart resumes from the last one
    $TFJOB_OUTPUT_DIR/logs    curves for TensorBoard, one folder per process
    $TFJOB_OUTPUT_DIR/model   the trained model (SavedModel) in version 1
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
    """End at once on SIGTERM, even as the first process of a container, where it has no effect by default."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    threading.Thread(target=lambda: os._exit(128 + signal.sigwait({signal.SIGTERM})), daemon=True).start()


# Do both before the import of TensorFlow, which starts threads and reads the log level.
end_on_sigterm()
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

tf.get_logger().setLevel("ERROR")


def main():
    parser = argparse.ArgumentParser(description="Train a digit reader with parameter servers.")
    parser.add_argument("--data", type=Path, required=True, help="folder with the MNIST files")
    parser.add_argument("--checkpoints", type=Path, default=folder("CHECKPOINT"), help="shared with the evaluator")
    parser.add_argument("--output", type=Path, default=folder("OUTPUT"), help="folder for model and curves")
    parser.add_argument("--steps", type=int, default=1200, help="steps of all workers together")
    parser.add_argument("--batch", type=int, default=64, help="images per step")
    parser.add_argument("--checkpoint-every", type=int, default=200, help="steps")
    args = parser.parse_args()

    task = json.loads(os.environ["TF_CONFIG"])["task"]
    print(f"{task['type']} {task['index']} with TensorFlow {tf.__version__}", flush=True)
    tf.keras.utils.set_random_seed(1)
    if task["type"] in ("worker", "ps"):
        serve()
    elif task["type"] == "evaluator":
        evaluate(args)
    else:
        try:
            coordinate(args)
        except tf.errors.UnavailableError as error:
            # A lost ps takes its variables with it: restart from the last checkpoint.
            print(f"lost the connection to a parameter server; exiting: {error.message.splitlines()[0]}")
            leave(1)


def folder(name):
    """Return a folder that tfjob keeps for the job; without tfjob, one in the current folder."""
    return os.environ.get(f"TFJOB_{name}_DIR", f"digits/{name.lower()}")


def serve():
    """Work for the chief until tfjob ends this process: after the chief, or to move it."""
    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    server = tf.distribute.Server(
        cluster.cluster_spec(), job_name=cluster.task_type, task_index=cluster.task_id, protocol="grpc"
    )
    server.join()


def coordinate(args):
    checkpoints = args.checkpoints
    if (checkpoints / "finished").exists():
        print(f"the training in {checkpoints} is complete: starting a new one", flush=True)
        shutil.rmtree(args.output / "logs", ignore_errors=True)
        shutil.rmtree(checkpoints)

    # This waits until every worker and ps is running.
    strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        model = make_model()
        optimizer = tf.keras.optimizers.Adam(1e-3)
        optimizer.build(model.trainable_variables)
        # Count in a separate variable: concurrent workers lose counts in Keras' optimizer.iterations.
        step = tf.Variable(0, dtype=tf.int64)

    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer, step=step)
    # The chief reads and writes the files, so a ps needs no volume.
    files = tf.train.CheckpointOptions(experimental_io_device="/job:chief/replica:0/task:0/device:CPU:0")
    manager = tf.train.CheckpointManager(checkpoint, checkpoints, max_to_keep=3)
    if manager.latest_checkpoint:
        checkpoint.restore(manager.latest_checkpoint, options=files).assert_consumed()
        print(f"resumed from step {step.numpy()}", flush=True)

    @tf.function
    def train_step(iterator):
        def on_replica(images, labels):
            with tf.GradientTape() as tape:
                probabilities = model(images, training=True)
                losses = tf.keras.losses.sparse_categorical_crossentropy(labels, probabilities)
                loss = tf.reduce_mean(losses)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            step.assign_add(1)
            return loss, tf.reduce_mean(correct(labels, probabilities))

        return strategy.run(on_replica, args=next(iterator))

    iterator = iter(coordinator.create_per_worker_dataset(lambda: batches(args)))
    writer = tf.summary.create_file_writer(str(args.output / "logs" / "chief-0"))
    while step.numpy() < args.steps:
        # Free workers take the next steps in any order; join waits for all of them.
        count = min(args.checkpoint_every - step.numpy() % args.checkpoint_every, args.steps - step.numpy())
        results = [coordinator.schedule(train_step, args=(iterator,)) for _ in range(count)]
        coordinator.join()
        loss, accuracy = np.mean([result.fetch() for result in results[-20:]], axis=0)
        write_scalars(writer, step.numpy(), loss=loss, accuracy=accuracy)
        manager.save(checkpoint_number=step.numpy(), options=files)
        print(f"step {step.numpy()}/{args.steps} loss {loss:.4f} accuracy {accuracy:.4f}", flush=True)

    trained = make_model()
    trained.set_weights([variable.numpy() for variable in model.variables])
    print(f"model exported to {export(trained, args.output / 'model')}")
    print(f"test accuracy {test_accuracy(trained, args.data):.4f}", flush=True)
    (checkpoints / "finished").touch()
    leave(0)


def batches(args):
    """Read the training images on the worker; arrays from this process would be sent inside the graph."""
    images = tf.data.FixedLengthRecordDataset(
        str(args.data / "train-images-idx3-ubyte.gz"), 28 * 28, header_bytes=16, compression_type="GZIP"
    )
    labels = tf.data.FixedLengthRecordDataset(
        str(args.data / "train-labels-idx1-ubyte.gz"), 1, header_bytes=8, compression_type="GZIP"
    )

    def decode(image, label):
        image = tf.reshape(tf.io.decode_raw(image, tf.uint8), (28, 28))
        return image, tf.cast(tf.io.decode_raw(label, tf.uint8)[0], tf.int64)

    data = tf.data.Dataset.zip((images, labels)).map(decode).cache()
    return data.shuffle(10_000).repeat().batch(args.batch).prefetch(2)


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
    """Exit immediately; Python's normal exit may wait for peers that are gone."""
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


def correct(labels, probabilities):
    return tf.cast(labels == tf.argmax(probabilities, axis=1), tf.float32)


def test_accuracy(model, folder):
    with gzip.open(folder / "t10k-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 28, 28)
    with gzip.open(folder / "t10k-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    return float(tf.reduce_mean(correct(labels, model(images))))


def write_scalars(writer, step, **values):
    """Do what tf.summary.scalar does, without the package tensorboard (TensorFlow 2.21 does not install it)."""
    metadata = tf.compat.v1.SummaryMetadata(plugin_data={"plugin_name": "scalars"})
    with writer.as_default(step):
        for name, value in values.items():
            tf.summary.write(name, tf.cast(value, tf.float32), metadata=metadata)
    writer.flush()


def export(model, folder):
    """Write the next version of the SavedModel and return its path; the final name appears only when it is complete."""
    version = max((int(path.name) for path in folder.glob("[0-9]*")), default=0) + 1
    unfinished = folder / f"unfinished-{version}"

    @tf.function(input_signature=[tf.TensorSpec([None, 28, 28], tf.uint8, name="images")])
    def read_digits(images):
        probabilities = model(images)
        return {"digits": tf.argmax(probabilities, axis=1), "probabilities": probabilities}

    # Servers find the variables of Keras 3 only if a module holds the variables of TensorFlow in them.
    servable = tf.Module()
    servable.kept = [variable.value for variable in model.variables]
    tf.saved_model.save(servable, unfinished, signatures={"serving_default": read_digits})
    return unfinished.rename(folder / str(version))


if __name__ == "__main__":
    main()
