"""One small training with a strategy: strategies.py STRATEGY LOOP

It uses Keras 3 or, with TF_USE_LEGACY_KERAS=1, tf_keras.
STRATEGY is none, mirrored, multi-worker or parameter-server; LOOP is fit or custom. The chief, or the first worker,
prints the losses of the epochs and saves a checkpoint. An evaluator waits for the checkpoint and prints its loss.
"""

import json
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

EPOCHS, STEPS, BATCH = 3, 8, 32
STRATEGY, LOOP = sys.argv[1:]
TF_CONFIG = json.loads(os.environ.get("TF_CONFIG", "{}"))
TASK = TF_CONFIG.get("task", {"type": "worker", "index": 0})
IS_FIRST = (TASK["type"], TASK["index"]) == ("chief" if "chief" in TF_CONFIG.get("cluster", {}) else "worker", 0)
CHECKPOINTS = Path(os.environ.get("TFJOB_CHECKPOINT_DIR") or "checkpoints")
SCRATCH = Path(os.environ.get("TFJOB_SCRATCH_DIR") or "scratch")


def main():
    if TASK["type"] == "evaluator":
        return evaluate()
    if STRATEGY == "parameter-server" and TASK["type"] in ("worker", "ps"):
        return serve()
    strategy = make_strategy()
    with strategy.scope():
        model = make_model()
        model.compile(optimizer=tf.keras.optimizers.Adam(0.01), loss=make_loss())
    losses = fit(model) if LOOP == "fit" else custom(strategy, model)
    if IS_FIRST:
        library = type(model).__module__.partition(".")[0]
        print(f"{library} losses {json.dumps(losses)}", flush=True)
    # All workers save, because saving may communicate; only the files of the first one are kept.
    local = "/job:chief/replica:0/task:0/device:CPU:0" if STRATEGY == "parameter-server" else None
    options = tf.train.CheckpointOptions(experimental_io_device=local)
    folder = CHECKPOINTS if IS_FIRST else SCRATCH
    tf.train.Checkpoint(model=model).save(str(folder / "model"), options=options)
    return None


def make_strategy():
    if STRATEGY == "none":
        return tf.distribute.get_strategy()
    if STRATEGY == "mirrored":
        (cpu,) = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
        return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    if STRATEGY == "multi-worker":
        return tf.distribute.MultiWorkerMirroredStrategy()
    return tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())


def serve():
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    server = tf.distribute.Server(
        resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc"
    )
    server.join()


def make_model():
    layers = [tf.keras.layers.Dense(32, activation="relu"), tf.keras.layers.Dense(8)]
    return tf.keras.Sequential([tf.keras.Input((8,)), *layers])


def make_loss(**options):
    return tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, **options)


def batches(context=None):
    rows = np.random.default_rng(0).normal(size=(BATCH * STEPS, 8)).astype("float32")
    return tf.data.Dataset.from_tensor_slices((rows, rows.argmax(axis=1))).repeat().batch(BATCH)


def fit(model):
    # Keras 3 has no DatasetCreator: with parameter servers it would need a dataset for each worker.
    if STRATEGY == "parameter-server" and hasattr(tf.keras.utils, "experimental"):
        data = tf.keras.utils.experimental.DatasetCreator(batches)
    else:
        data = batches()
    return model.fit(data, epochs=EPOCHS, steps_per_epoch=STEPS, verbose=2).history["loss"]


def custom(strategy, model):
    loss_of = make_loss(reduction="none")

    @tf.function
    def step(iterator):
        def on_replica(rows, labels):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(loss_of(labels, model(rows, training=True))) / BATCH
            gradients = tape.gradient(loss, model.trainable_variables)
            model.optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return loss

        return strategy.reduce("SUM", strategy.run(on_replica, args=next(iterator)), axis=None)

    with strategy.scope():
        model.optimizer.build(model.trainable_variables)
    if STRATEGY == "parameter-server":
        coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        iterator = iter(coordinator.create_per_worker_dataset(batches))

        def epoch():
            results = [coordinator.schedule(step, args=(iterator,)) for _ in range(STEPS)]
            coordinator.join()
            return [result.fetch() for result in results]
    else:
        iterator = iter(strategy.experimental_distribute_dataset(batches()))

        def epoch():
            return [float(step(iterator)) for _ in range(STEPS)]

    return [float(np.mean(epoch())) for _ in range(EPOCHS)]


def evaluate():
    path = next(iter(tf.train.checkpoints_iterator(str(CHECKPOINTS), timeout=120)))
    model = make_model()
    tf.train.Checkpoint(model=model).restore(path).expect_partial()
    rows, labels = next(iter(batches()))
    print(f"evaluated loss {float(make_loss()(labels, model(rows))):.4f}", flush=True)


main()
