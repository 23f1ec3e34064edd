"""`fit` of Keras 3 under MultiWorkerMirroredStrategy, as TensorFlow's tutorial writes it."""

import numpy as np
import tensorflow as tf


def main():
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    images = np.random.default_rng(1).random((64, 28, 28), dtype=np.float32)
    labels = np.arange(64) % 10
    dataset = tf.data.Dataset.from_tensor_slices((images, labels)).repeat().batch(32)
    with strategy.scope():
        model = tf.keras.Sequential(
            [tf.keras.Input((28, 28)), tf.keras.layers.Flatten(), tf.keras.layers.Dense(10)],
        )
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(loss=loss, optimizer="sgd", metrics=["accuracy"])
    model.fit(dataset, epochs=1, steps_per_epoch=2)


main()
