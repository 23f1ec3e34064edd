"""A checkpoint on a full disk."""

import tensorflow as tf

tf.io.write_file("/dev/full", "x" * 10**6)
