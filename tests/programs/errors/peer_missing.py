"""A collective of two workers, of which the second never joins."""

import json
import os
import time

import tensorflow as tf
from tensorflow.python.eager import context

if json.loads(os.environ["TF_CONFIG"])["task"]["index"]:
    time.sleep(600)
configure = context.Context.configure_coordination_service
context.Context.configure_coordination_service = lambda *args, **more: configure(
    *args,
    **more | {"cluster_register_timeout_in_ms": 3000},  # an hour by default
)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
