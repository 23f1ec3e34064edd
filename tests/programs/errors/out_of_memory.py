"""A tensor that is larger than any memory."""

import tensorflow as tf

tf.fill([10**6, 10**8], 1.0)
