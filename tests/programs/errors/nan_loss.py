"""A loss of NaN, at which TerminateOnNaN ends the training."""

import numpy as np
import tensorflow as tf

model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
model.compile(loss="mse", optimizer="sgd")
ends = tf.keras.callbacks.TerminateOnNaN(raise_error=True)
model.fit(np.full((8, 4), np.nan), np.ones((8, 1)), callbacks=[ends], verbose=0)
