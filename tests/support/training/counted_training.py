"""A small real training that keeps a journal of its steps: what replicas run in the suites of faults.

With a ps in the cluster of TF_CONFIG the chief hands out the steps (ParameterServerStrategy), else chief and workers
take each step together (MultiWorkerMirroredStrategy). Every step adds one to a variable, so the sum at the end tells
whether an update was lost or counted twice. In the folder FOLDER it writes and reads:

    steps       a line with its number for each step whose update has arrived, also those of earlier processes
    held        while this file is there, no task goes beyond the last checkpoint before the end
    asked/TASK  what a test asks of a task: `hog` takes all the memory there is; `hog once`, but not a second time
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn


def end_on_sigterm() -> None:
    """End when asked to. TensorFlow's own handler of SIGTERM only takes a note and trains on."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    threading.Thread(target=lambda: os._exit(128 + signal.sigwait({signal.SIGTERM})), daemon=True).start()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--checkpoint-every", type=int, required=True)
    parser.add_argument("--pace", type=float, required=True, help="seconds that a step takes at least")
    parser.add_argument("--when-a-peer-is-lost", type=int, default=1, help="the exit code for that")
    parser.add_argument("--swallow-sigterm", action="store_true", help="leave SIGTERM to TensorFlow")
    parser.add_argument("--occupy", default="", help="a task that finds its port in use by another program of its own")
    args = parser.parse_args()
    config = json.loads(os.environ["TF_CONFIG"])
    cluster, task = config["cluster"], config["task"]
    name = f"{task['type']}-{task['index']}"

    if not args.swallow_sigterm:
        end_on_sigterm()  # before TensorFlow starts threads
    if name == args.occupy:
        occupied = socket.create_server(("", int(cluster[task["type"]][task["index"]].rpartition(":")[2])))
        print(f"port {occupied.getsockname()[1]} is in use", flush=True)
    threading.Thread(target=obey, args=(args.folder / "asked" / name,), daemon=True).start()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow as tf  # type: ignore[import-untyped]

    tf.get_logger().setLevel("ERROR")
    try:
        if "ps" not in cluster:
            train_together(tf, args, is_chief=task["type"] == "chief")
        elif task["type"] == "chief":
            coordinate(tf, args)
        else:
            tf.distribute.Server(cluster, job_name=task["type"], task_index=task["index"], protocol="grpc").join()
    except (tf.errors.UnavailableError, tf.errors.AbortedError) as error:
        print(f"a peer is gone ({type(error).__name__}): {error.message.splitlines()[0]}")
        leave(args.when_a_peer_is_lost)
    except Exception:
        traceback.print_exc()
        leave(1)
    leave(0)


def leave(code: int) -> NoReturn:
    """End here and now: Python's own way out waits for TensorFlow's watch over its peers."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def obey(asked: Path) -> None:
    """Do what a test asks of this task."""
    while not asked.exists():
        time.sleep(0.02)
    if asked.read_text() == "hog once":
        asked.unlink()
    taken = []
    while True:
        taken.append(b"x" * 16_000_000)


def wait_while_held(args: argparse.Namespace, step: int) -> None:
    """Wait near the end until the test has done what it wanted."""
    while step >= args.steps - args.checkpoint_every and (args.folder / "held").exists():
        time.sleep(0.02)


def train_together(tf: Any, args: argparse.Namespace, *, is_chief: bool) -> None:
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        weights = tf.Variable(tf.zeros([8, 1]), aggregation=tf.VariableAggregation.MEAN)
        total = tf.Variable(0.0, aggregation=tf.VariableAggregation.SUM)
    step = tf.Variable(0, dtype=tf.int64)

    @tf.function  # type: ignore[untyped-decorator]
    def take_step() -> None:
        def on_each_replica() -> None:
            weights.assign_sub(0.1 * gradient_of(tf, weights))
            total.assign_add(1.0 / strategy.num_replicas_in_sync)

        strategy.run(on_each_replica)

    checkpoint = tf.train.Checkpoint(weights=weights, total=total, step=step)
    folder = Path(os.environ["TFJOB_CHECKPOINT_DIR"])
    if latest := tf.train.latest_checkpoint(folder):
        checkpoint.restore(latest).assert_consumed()
    print(f"begins after step {int(step)}", flush=True)
    # Every process must save, since saving may talk to the others; only the chief's files are kept.
    own = folder if is_chief else Path(os.environ["TFJOB_SCRATCH_DIR"], "checkpoints")
    manager = tf.train.CheckpointManager(checkpoint, own, max_to_keep=3)
    while int(step) < args.steps:
        time.sleep(args.pace)
        wait_while_held(args, int(step))
        take_step()
        step.assign_add(1)
        if is_chief:
            with (args.folder / "steps").open("a") as journal:
                journal.write(f"{int(step)}\n")
        if int(step) % args.checkpoint_every == 0:
            manager.save(checkpoint_number=int(step))
    print(f"done: {int(step)} steps, {total.numpy():g} updates", flush=True)


def coordinate(tf: Any, args: argparse.Namespace) -> None:
    # The one data set that takes its time: a step must last, so that it can be hit.
    from tensorflow.python.data.experimental.ops import testing  # type: ignore[import-untyped]

    strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        weights = tf.Variable(tf.zeros([8, 1]))
        total = tf.Variable(0.0)
        step = tf.Variable(0, dtype=tf.int64)
    journal = f"file://{args.folder / 'steps'}"

    @tf.function  # type: ignore[untyped-decorator]
    def take_step(number: Any, slowly: Any) -> None:
        next(slowly)

        def on_replica() -> Any:
            weights.assign_sub(0.1 * gradient_of(tf, weights))
            return tf.identity(total.assign_add(1.0))

        with tf.control_dependencies([strategy.run(on_replica)]):
            tf.print(number, output_stream=journal)  # the worker writes it

    checkpoint = tf.train.Checkpoint(weights=weights, total=total, step=step)
    files = tf.train.CheckpointOptions(experimental_io_device="/job:chief/replica:0/task:0/device:CPU:0")
    manager = tf.train.CheckpointManager(checkpoint, os.environ["TFJOB_CHECKPOINT_DIR"], max_to_keep=3)
    if manager.latest_checkpoint:
        checkpoint.restore(manager.latest_checkpoint, options=files).assert_consumed()
    reached = int(step.numpy())
    print(f"begins after step {reached}", flush=True)
    pause = testing.sleep(int(args.pace * 1e6))
    slowly = iter(coordinator.create_per_worker_dataset(lambda: tf.data.Dataset.range(1).repeat().apply(pause)))
    while reached < args.steps:
        wait_while_held(args, reached)
        for number in range(reached + 1, reached + args.checkpoint_every + 1):
            coordinator.schedule(take_step, args=(tf.constant(number), slowly))
        coordinator.join()
        reached += args.checkpoint_every
        step.assign(reached)
        manager.save(checkpoint_number=reached, options=files)
    print(f"done: {reached} steps, {total.numpy():g} updates", flush=True)


def gradient_of(tf: Any, weights: Any) -> Any:
    """How to change the weights for one batch of a line to be learnt."""
    inputs = tf.random.normal([32, 8])
    wanted = tf.reduce_sum(inputs, axis=1, keepdims=True)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(inputs @ weights - wanted))
    return tape.gradient(loss, weights)


if __name__ == "__main__":
    main()
