"""Native code that gets no more memory."""

import resource

import tensorflow as tf

resource.setrlimit(resource.RLIMIT_AS, (1, resource.RLIM_INFINITY))
while True:
    tf.strings.join(["x" * 10**6] * 100)
