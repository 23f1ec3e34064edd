"""A checkpoint of a variable with another shape."""

import tempfile

import tensorflow as tf

with tempfile.TemporaryDirectory() as folder:
    path = tf.train.Checkpoint(weights=tf.Variable(tf.zeros([8]))).save(f"{folder}/model")
    tf.train.Checkpoint(weights=tf.Variable(tf.zeros([4]))).restore(path)
