"""Distributed training in the style of TensorFlow 1 (between-graph replication): tfjob run tfjob.yaml

Every worker builds the same graph and runs it independently. replica_device_setter puts the variables on the ps, so all
workers change the same ones. MonitoredTrainingSession initializes the variables and writes checkpoints. A process that
comes back after a failure continues with the current variables. For new code, start from ../mnist or ../mnist-ps.
"""

import argparse
import gzip
import json
import os
import shutil
import sys
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # before TensorFlow is imported
CONFIG = json.loads(os.environ.get("TF_CONFIG", "{}"))
if CONFIG:
    # Print this line before TensorFlow prints anything: log collectors find the replica by it.
    print("REPLICA_TYPE={type},REPLICA_INDEX={index}".format(**CONFIG["task"]), flush=True)

import numpy as np  # noqa: E402
import tensorflow.compat.v1 as tf  # noqa: E402

DATA = Path(__file__).parents[1] / "mnist" / "data"

tf.logging.set_verbosity(tf.logging.ERROR)
tf.disable_eager_execution()


def main():
    parser = argparse.ArgumentParser(description="Train a linear digit reader.")
    parser.add_argument("--data", type=Path, default=DATA, help="folder with the MNIST files")
    parser.add_argument("--output", type=Path, help="folder for checkpoints, shared by all processes")
    parser.add_argument("--log_dir", help="folder for TensorBoard curves; can be s3:// or gs://")
    parser.add_argument("--steps", type=int, default=2000, help="steps of all workers together")
    args = parser.parse_args()

    cluster = tf.train.ClusterSpec(CONFIG["cluster"])
    task, index = CONFIG["task"]["type"], CONFIG["task"]["index"]
    server = tf.distribute.Server(cluster, job_name=task, task_index=index)
    if task == "ps":
        server.join()  # serves variables until tfjob ends it
    leader = next((name for name in ("master", "chief") if name in cluster.jobs), "worker")
    train(args, cluster, server.target, f"/job:{task}/task:{index}", is_chief=(task, index) == (leader, 0))


def train(args, cluster, target, device, is_chief):
    finished = args.output / "finished" if args.output else None
    if is_chief and finished and finished.exists():
        print(f"the training in {args.output} is complete: starting a new one", flush=True)
        shutil.rmtree(args.output / "checkpoints")
        finished.unlink()

    with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device=device)):
        step = tf.train.get_or_create_global_step()
        images = tf.placeholder(tf.float32, [None, 28 * 28])
        labels = tf.placeholder(tf.int64, [None])
        weights = tf.get_variable("weights", [28 * 28, 10], initializer=tf.zeros_initializer())
        biases = tf.get_variable("biases", [10], initializer=tf.zeros_initializer())
        logits = images @ weights + biases
        loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
        accuracy = tf.reduce_mean(tf.cast(tf.equal(labels, tf.argmax(logits, 1)), tf.float32))
        train_op = tf.train.AdamOptimizer(1e-3).minimize(loss, global_step=step)

    if not is_chief:
        wait_for_variables(target)
    curves = tf.summary.FileWriter(args.log_dir) if args.log_dir and is_chief else None
    x, y = load(args.data, "train")
    session = tf.train.MonitoredTrainingSession(
        target,
        is_chief=is_chief,
        checkpoint_dir=str(args.output / "checkpoints") if args.output else None,
        save_checkpoint_steps=400,
        log_step_count_steps=None,
    )
    with session:
        done = session.run(step)
        if done:
            print(f"{'resumed from' if is_chief else 'joins at'} step {done}", flush=True)
        next_report = done + 400
        while done < args.steps:
            batch = np.random.randint(0, len(x), 64)
            done, value, _ = session.run([step, loss, train_op], {images: x[batch], labels: y[batch]})
            if done >= next_report:
                print(f"step {done}/{args.steps} loss {value:.4f}", flush=True)
                write_scalar(curves, done, "loss", value)
                next_report += 400
        if is_chief:
            x, y = load(args.data, "t10k")
            value = session.run(accuracy, {images: x, labels: y})
            write_scalar(curves, done, "accuracy", value)
            print(f"test accuracy {value:.4f}", flush=True)
    if is_chief and finished:
        finished.touch()
    sys.stdout.flush()
    os._exit(0)  # the server in this process would keep it running


def write_scalar(curves, step, name, value):
    """Add a point to a curve, if there are curves."""
    if curves:
        curves.add_summary(tf.Summary(value=[tf.Summary.Value(tag=name, simple_value=value)]), step)
        curves.flush()


def wait_for_variables(target):
    """Wait until the leader has initialized them; the session below would check again only after 30 seconds."""
    uninitialised = tf.report_uninitialized_variables()
    with tf.Session(target) as session:
        while len(session.run(uninitialised)):
            time.sleep(0.5)


def load(folder, part):
    """Read images (n, 784) in 0..1 and labels (n,) of "train" or "t10k" from MNIST's file format."""
    with gzip.open(folder / f"{part}-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 28 * 28)
    with gzip.open(folder / f"{part}-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    return images / np.float32(255), labels


if __name__ == "__main__":
    main()
