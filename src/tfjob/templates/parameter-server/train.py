"""Train a classifier for points on a spiral, with parameter servers (ParameterServerStrategy): tfjob run tfjob.yaml

tfjob sets TF_CONFIG, which contains the role of this process and the addresses of all others:

    ps       holds the variables of the model
    worker   computes gradients independently and applies them to the variables on the ps
    chief    schedules the steps, writes the checkpoints, saves the model

If a worker is lost, the others take over its steps. If a ps is lost, its variables are lost too, and the chief restarts
from the last checkpoint. The data is generated: replace `spiral` with your own.
"""

import argparse
import json
import os
import shutil
import signal
import sys
import threading
from pathlib import Path


def end_on_sigterm():
    """Exit on SIGTERM, also as the first process of a container, which ignores SIGTERM by default."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    threading.Thread(target=lambda: os._exit(128 + signal.sigwait({signal.SIGTERM})), daemon=True).start()


# Both before the import of TensorFlow, which starts threads and reads its log level.
end_on_sigterm()
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

tf.get_logger().setLevel("ERROR")

# tfjob sets these if the volume tfjob-data is mounted. Without it, everything goes to the current folder.
CHECKPOINTS = Path(os.environ.get("TFJOB_CHECKPOINT_DIR") or "checkpoints")
OUTPUT = Path(os.environ.get("TFJOB_OUTPUT_DIR") or "output")
CLASSES = 5


def main():
    parser = argparse.ArgumentParser(description="Train a classifier for points on a spiral, with parameter servers.")
    parser.add_argument("--steps", type=int, default=8000, help="total number of steps")
    parser.add_argument("--batch", type=int, default=64, help="points per step")
    parser.add_argument("--checkpoint-every", type=int, default=200, help="steps between checkpoints")
    args = parser.parse_args()

    task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task")
    if task is None:
        sys.exit("TF_CONFIG is not set: start this program with tfjob run tfjob.yaml")
    if task["type"] in ("worker", "ps"):
        serve()
    try:
        coordinate(args)
    except tf.errors.UnavailableError as error:
        # The variables of the ps are lost: restart from the last checkpoint.
        print(f"lost the connection to a parameter server; exiting: {error.message.splitlines()[0]}")
        leave(1)


def serve():
    """Serve the chief until tfjob ends this process."""
    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    server = tf.distribute.Server(
        cluster.cluster_spec(), job_name=cluster.task_type, task_index=cluster.task_id, protocol="grpc"
    )
    server.join()


def coordinate(args):
    if (CHECKPOINTS / "finished").exists():
        print("the previous training is complete; starting a new one", flush=True)
        shutil.rmtree(OUTPUT / "logs", ignore_errors=True)
        shutil.rmtree(CHECKPOINTS)

    # This waits for every worker and ps.
    strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    tf.keras.utils.set_random_seed(1)
    with strategy.scope():
        model = make_model()
        optimizer = tf.keras.optimizers.Adam(1e-3)
        optimizer.build(model.trainable_variables)
        # A separate counter, because concurrent steps of workers lose counts in Keras' optimizer.iterations.
        step = tf.Variable(0, dtype=tf.int64)

    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer, step=step)
    # The chief reads and writes the files, so that a ps does not need the volume.
    files = tf.train.CheckpointOptions(experimental_io_device="/job:chief/replica:0/task:0/device:CPU:0")
    manager = tf.train.CheckpointManager(checkpoint, CHECKPOINTS, max_to_keep=3)
    if manager.latest_checkpoint:
        checkpoint.restore(manager.latest_checkpoint, options=files).assert_consumed()
        print(f"resumed from step {step.numpy()}", flush=True)

    @tf.function
    def train_step(iterator):
        def on_worker(points, arms):
            with tf.GradientTape() as tape:
                logits = model(points, training=True)
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(arms, logits))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            step.assign_add(1)
            return loss, tf.reduce_mean(tf.cast(arms == tf.argmax(logits, axis=1), tf.float32))

        return strategy.run(on_worker, args=next(iterator))

    def batches():
        data = tf.data.Dataset.from_tensor_slices(spiral(3000))
        return data.shuffle(3000).repeat().batch(args.batch).prefetch(2)

    iterator = iter(coordinator.create_per_worker_dataset(batches))
    writer = tf.summary.create_file_writer(str(OUTPUT / "logs" / "chief-0"))
    while step.numpy() < args.steps:
        # Schedule the next steps, which free workers run in any order; join waits for all of them.
        count = min(args.checkpoint_every - step.numpy() % args.checkpoint_every, args.steps - step.numpy())
        results = [coordinator.schedule(train_step, args=(iterator,)) for _ in range(count)]
        coordinator.join()
        loss, accuracy = np.mean([result.fetch() for result in results[-20:]], axis=0)
        write_scalars(writer, step.numpy(), loss=loss, accuracy=accuracy)
        manager.save(checkpoint_number=step.numpy(), options=files)
        print(f"step {step.numpy()}/{args.steps} loss {loss:.4f} accuracy {accuracy:.4f}", flush=True)

    trained = make_model()
    trained.set_weights([variable.numpy() for variable in model.variables])
    trained.export(str(OUTPUT / "model"), verbose=False)
    print(f"model saved in {OUTPUT / 'model'}")
    (CHECKPOINTS / "finished").touch()
    leave(0)


def spiral(count):
    """Return points on a spiral (count, 2) and the number of the arm of each (count,)."""
    random = np.random.default_rng(1)
    arms = np.arange(count) % CLASSES
    radius = random.uniform(0.1, 1, count)
    angle = 6 * radius + 2 * np.pi * arms / CLASSES + random.normal(0, 0.2, count)
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return points.astype(np.float32), arms.astype(np.int64)


def make_model():
    layers = [tf.keras.layers.Dense(64, activation="relu") for _ in range(2)]
    return tf.keras.Sequential([tf.keras.Input((2,)), *layers, tf.keras.layers.Dense(CLASSES)])


def write_scalars(writer, step, **values):
    """Replace tf.summary.scalar, which requires the package tensorboard."""
    metadata = tf.compat.v1.SummaryMetadata(plugin_data={"plugin_name": "scalars"})
    with writer.as_default(step):
        for name, value in values.items():
            tf.summary.write(name, tf.cast(value, tf.float32), metadata=metadata)
    writer.flush()


def leave(code):
    """Exit immediately. A normal exit may wait for processes that are gone."""
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
