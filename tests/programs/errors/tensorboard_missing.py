"""Keras' TensorBoard callback without the package tensorboard."""

import sys
import tempfile

sys.modules["tensorboard"] = None  # as if it were not installed

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
model.compile(loss="mse", optimizer="sgd")
with tempfile.TemporaryDirectory() as folder:
    model.fit(np.ones((8, 4)), np.ones((8, 1)), callbacks=[tf.keras.callbacks.TensorBoard(folder)], verbose=0)
