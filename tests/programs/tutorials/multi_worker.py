"""Keras `fit` on several workers, as TensorFlow's tutorial shows it; the chief saves the model."""

import json
import os

import numpy as np
import tensorflow as tf

BATCH = 32
config = json.loads(os.environ["TF_CONFIG"])
workers = len(config["cluster"]["worker"])
strategy = tf.distribute.MultiWorkerMirroredStrategy()


def dataset(batch):
    rows = np.random.default_rng(0).normal(size=(2048, 8)).astype("float32")
    data = tf.data.Dataset.from_tensor_slices((rows, rows.argmax(axis=1)))
    return data.shuffle(2048, seed=1).repeat().batch(batch)


with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(32, activation="relu")])
    model.add(tf.keras.layers.Dense(8))
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="adam", loss=loss, metrics=["accuracy"])
history = model.fit(dataset(BATCH * workers), epochs=3, steps_per_epoch=32)
name = "model.keras" if config["task"]["index"] == 0 else f"worker-{config['task']['index']}.keras"
model.save(os.path.join(os.environ.get("TFJOB_OUTPUT_DIR", "."), name))
print("losses", history.history["loss"])
