"""Train a classifier for points on a spiral: two workers train one model together.

    tfjob run tfjob.yaml      both workers
    python train.py           one process, without tfjob

tfjob sets TF_CONFIG, which contains the role of this process and the addresses of all others. Each worker processes its
share of every batch, and all apply the same sum of gradients (MultiWorkerMirroredStrategy). If one is lost, both
restart from the last checkpoint. The data is generated: replace `spiral` with your own.
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
    """Exit on SIGTERM. TensorFlow's handler only records the signal and continues to train."""
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
    parser = argparse.ArgumentParser(description="Train a classifier for points on a spiral.")
    parser.add_argument("--steps", type=int, default=8000, help="total number of steps")
    parser.add_argument("--batch", type=int, default=64, help="points per step, over all workers")
    parser.add_argument("--checkpoint-every", type=int, default=200, help="steps between checkpoints")
    args = parser.parse_args()

    config = json.loads(os.environ.get("TF_CONFIG", "{}"))
    task = config.get("task", {"type": "worker", "index": 0})
    try:
        train(args, config.get("cluster", {}), task)
    except (tf.errors.UnavailableError, tf.errors.AbortedError) as error:
        # No worker can continue without the others: all must restart from the last checkpoint.
        print(f"lost the connection to a worker; exiting ({type(error).__name__})")
        leave(1)


def train(args, cluster, task):
    is_first = (task["type"], task["index"]) == ("chief" if "chief" in cluster else "worker", 0)
    if is_first and (CHECKPOINTS / "finished").exists():
        print("the previous training is complete; starting a new one", flush=True)
        shutil.rmtree(OUTPUT / "logs", ignore_errors=True)
        shutil.rmtree(CHECKPOINTS)

    # With several workers, this waits for all of them, so the others see what the first one did above.
    strategy = tf.distribute.MultiWorkerMirroredStrategy() if cluster else tf.distribute.get_strategy()
    tf.keras.utils.set_random_seed(1)
    with strategy.scope():
        model = make_model()
        optimizer = tf.keras.optimizers.Adam(1e-3)
        optimizer.build(model.trainable_variables)

    step = tf.Variable(0, dtype=tf.int64)
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer, step=step)
    latest = tf.train.latest_checkpoint(CHECKPOINTS)
    if latest:
        checkpoint.restore(latest).assert_consumed()
        print(f"resumed from step {int(step)}", flush=True)
    # Every process must save, because saving may communicate with the others. Only the files of the first one are kept.
    own = Path(os.environ.get("TFJOB_SCRATCH_DIR") or f"scratch/{task['type']}-{task['index']}")
    manager = tf.train.CheckpointManager(checkpoint, CHECKPOINTS if is_first else own / "checkpoints", max_to_keep=3)

    points, arms = spiral(3000)

    def batches(context):
        data = tf.data.Dataset.from_tensor_slices((points, arms))
        data = data.shard(context.num_input_pipelines, context.input_pipeline_id)
        # A different order after a restart, so that a resumed run does not repeat the first batches.
        data = data.shuffle(len(points), seed=int(step)).repeat()
        return data.batch(context.get_per_replica_batch_size(args.batch)).prefetch(2)

    @tf.function
    def train_step(iterator):
        def on_each_worker(points, arms):
            with tf.GradientTape() as tape:
                logits = model(points, training=True)
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(arms, logits)
                loss = tf.reduce_sum(losses) / args.batch
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            right = tf.cast(arms == tf.argmax(logits, axis=1), tf.float32)
            return loss, tf.reduce_sum(right) / args.batch

        result = strategy.run(on_each_worker, args=next(iterator))
        return [strategy.reduce("SUM", value, axis=None) for value in result]

    iterator = iter(strategy.distribute_datasets_from_function(batches))
    writer = tf.summary.create_file_writer(str(OUTPUT / "logs" / f"{task['type']}-{task['index']}"))
    while int(step) < args.steps:
        loss, accuracy = train_step(iterator)
        step.assign_add(1)
        if int(step) % 20 == 0:
            write_scalars(writer, int(step), loss=loss, accuracy=accuracy)
        if int(step) % args.checkpoint_every == 0 or int(step) == args.steps:
            manager.save(checkpoint_number=int(step))
            print(f"step {int(step)}/{args.steps} loss {loss:.4f} accuracy {accuracy:.4f}", flush=True)

    if is_first:
        model.export(str(OUTPUT / "model"), verbose=False)
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
    """Exit immediately. A normal exit waits up to half a minute for TensorFlow's connections to other workers."""
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
