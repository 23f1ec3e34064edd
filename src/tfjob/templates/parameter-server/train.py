"""Learn which arm of a spiral a point is on, with parameter servers (ParameterServerStrategy): tfjob run tfjob.yaml

TF_CONFIG, which tfjob sets, tells each process who it is and where the others are:

    ps       holds the variables of the model
    worker   computes gradients, each on its own, and applies them to the variables on the ps
    chief    hands out the steps, keeps the checkpoints, saves the model

A lost worker only makes the others do more. With a ps the variables are lost too: the chief starts again from the last
checkpoint. The data is made here: put your own in the place of `spiral`.
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
    """End at once when asked to, also where this process is the first of its container and a SIGTERM has no effect."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    threading.Thread(target=lambda: os._exit(128 + signal.sigwait({signal.SIGTERM})), daemon=True).start()


# Both before TensorFlow is imported: it starts threads and reads its log level then.
end_on_sigterm()
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

tf.get_logger().setLevel("ERROR")

# tfjob sets these where the volume tfjob-data is mounted; without it everything goes to the current folder.
CHECKPOINTS = Path(os.environ.get("TFJOB_CHECKPOINT_DIR") or "checkpoints")
OUTPUT = Path(os.environ.get("TFJOB_OUTPUT_DIR") or "output")
CLASSES = 3


def main():
    parser = argparse.ArgumentParser(description="Train on points of a spiral with parameter servers.")
    parser.add_argument("--steps", type=int, default=1000, help="steps of all workers together")
    parser.add_argument("--batch", type=int, default=64, help="points a step")
    parser.add_argument("--checkpoint-every", type=int, default=100, help="steps")
    args = parser.parse_args()

    task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task")
    if task is None:
        sys.exit("there is nobody to train with: start it with tfjob run tfjob.yaml")
    if task["type"] in ("worker", "ps"):
        serve()
    try:
        coordinate(args)
    except tf.errors.UnavailableError as error:
        # The variables are gone with a ps: start again from the last checkpoint.
        print(f"a parameter server is gone, so this process ends too: {error.message.splitlines()[0]}")
        leave(1)


def serve():
    """Do what the chief asks for, until tfjob ends this process: after the chief, or to move it."""
    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    server = tf.distribute.Server(
        cluster.cluster_spec(), job_name=cluster.task_type, task_index=cluster.task_id, protocol="grpc"
    )
    server.join()


def coordinate(args):
    if (CHECKPOINTS / "finished").exists():
        print("the last training is complete: starting a new one", flush=True)
        shutil.rmtree(OUTPUT / "logs", ignore_errors=True)
        shutil.rmtree(CHECKPOINTS)

    # Waits until every worker and ps is there.
    strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    tf.keras.utils.set_random_seed(1)
    with strategy.scope():
        model = make_model()
        optimizer = tf.keras.optimizers.Adam(1e-3)
        optimizer.build(model.trainable_variables)
        # Our own counter: workers that step at the same time lose counts in Keras' optimizer.iterations.
        step = tf.Variable(0, dtype=tf.int64)

    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer, step=step)
    # The chief itself reads and writes the files, so that a ps needs no volume.
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
        # The next steps to do, in any order, by whichever worker is free; join waits for all of them.
        count = min(args.checkpoint_every - step.numpy() % args.checkpoint_every, args.steps - step.numpy())
        results = [coordinator.schedule(train_step, args=(iterator,)) for _ in range(count)]
        coordinator.join()
        loss, accuracy = np.mean([result.fetch() for result in results[-20:]], axis=0)
        write_scalars(writer, step.numpy(), loss=loss, accuracy=accuracy)
        manager.save(checkpoint_number=step.numpy(), options=files)
        print(f"step {step.numpy()}/{args.steps} loss {loss:.4f} accuracy {accuracy:.4f}", flush=True)

    trained = make_model()
    trained.set_weights([variable.numpy() for variable in model.variables])
    tf.saved_model.save(trained, str(OUTPUT / "model"))
    print(f"model saved in {OUTPUT / 'model'}")
    (CHECKPOINTS / "finished").touch()
    leave(0)


def spiral(count):
    """Make points (count, 2) around a spiral, and the number of the arm that each is on (count,)."""
    random = np.random.default_rng(1)
    arms = np.arange(count) % CLASSES
    radius = random.uniform(0.1, 1, count)
    angle = 4 * radius + 2 * np.pi * arms / CLASSES + random.normal(0, 0.2, count)
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return points.astype(np.float32), arms.astype(np.int64)


def make_model():
    layers = [tf.keras.layers.Dense(64, activation="relu") for _ in range(2)]
    return tf.keras.Sequential([tf.keras.Input((2,)), *layers, tf.keras.layers.Dense(CLASSES)])


def write_scalars(writer, step, **values):
    """Do what tf.summary.scalar does, which needs the package tensorboard."""
    metadata = tf.compat.v1.SummaryMetadata(plugin_data={"plugin_name": "scalars"})
    with writer.as_default(step):
        for name, value in values.items():
            tf.summary.write(name, tf.cast(value, tf.float32), metadata=metadata)
    writer.flush()


def leave(code):
    """End here and now: Python's own way out may wait for peers that are gone."""
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
