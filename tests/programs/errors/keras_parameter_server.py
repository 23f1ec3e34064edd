"""`fit` of Keras 3 under ParameterServerStrategy: the chief trains, the others serve."""

import numpy as np
import tensorflow as tf

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type in ("worker", "ps"):
    server = tf.distribute.Server(
        resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc"
    )
    server.join()
strategy = tf.distribute.ParameterServerStrategy(resolver)
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
    model.compile(loss="mse", optimizer="sgd")
dataset = tf.data.Dataset.from_tensor_slices((np.ones((8, 4), np.float32), np.ones((8, 1), np.float32)))
model.fit(dataset.repeat().batch(4), epochs=1, steps_per_epoch=2)
