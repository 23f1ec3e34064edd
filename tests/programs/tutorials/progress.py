"""Keras `fit` in one process, with its progress bar, which moves with carriage returns."""

import numpy as np
import tensorflow as tf

rows = np.random.default_rng(0).normal(size=(2048, 8)).astype("float32")
model = tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(32, activation="relu")])
model.add(tf.keras.layers.Dense(8))
loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(optimizer="adam", loss=loss, metrics=["accuracy"])
history = model.fit(rows, rows.argmax(axis=1), batch_size=32, epochs=3, validation_split=0.25)
print("losses", history.history["loss"])
