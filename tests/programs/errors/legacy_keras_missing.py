"""TF_USE_LEGACY_KERAS=1 without the package tf_keras."""

import os
import sys

os.environ["TF_USE_LEGACY_KERAS"] = "1"
sys.modules["tf_keras"] = None  # as if it were not installed

import tensorflow as tf  # noqa: E402

model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
