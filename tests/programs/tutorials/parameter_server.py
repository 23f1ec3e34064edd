"""`fit` of tf_keras with parameter servers, as TensorFlow's tutorial shows it; the chief ends the job."""

import os

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import numpy as np
import tensorflow as tf

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type in ("worker", "ps"):
    server = tf.distribute.Server(
        resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc"
    )
    server.join()


def dataset(context):
    rows = np.random.default_rng(0).normal(size=(2048, 8)).astype("float32")
    data = tf.data.Dataset.from_tensor_slices((rows, rows.argmax(axis=1)))
    data = data.shuffle(2048).repeat().batch(context.get_per_replica_batch_size(32) if context else 32)
    return data.prefetch(2)


sizes = tf.distribute.experimental.partitioners.MinSizePartitioner(min_shard_bytes=256 << 10, max_shards=1)
strategy = tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=sizes)
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(32, activation="relu")])
    model.add(tf.keras.layers.Dense(8))
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="adam", loss=loss, metrics=["accuracy"])
creator = tf.keras.utils.experimental.DatasetCreator(dataset)
history = model.fit(creator, epochs=3, steps_per_epoch=32)
print("losses", history.history["loss"])
