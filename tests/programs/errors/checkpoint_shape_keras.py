"""The weights of a Keras model with another number of units."""

import tempfile

import tensorflow as tf


def model(units):
    return tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(units)])


with tempfile.TemporaryDirectory() as folder:
    model(400).save_weights(f"{folder}/model.weights.h5")
    model(300).load_weights(f"{folder}/model.weights.h5")
