"""A collective of two workers, of which the second never joins."""

import json
import os
import time

import tensorflow as tf
from tensorflow.python.distribute import collective_all_reduce_strategy as collective
from tensorflow.python.eager import context

if json.loads(os.environ["TF_CONFIG"])["task"]["index"]:
    time.sleep(600)
# By default, TensorFlow waits for an hour or longer.
context.context().configure_coordination_service(service_type="")
collective.CollectiveAllReduceExtended._check_health_initial_timeout = 3
strategy = tf.distribute.MultiWorkerMirroredStrategy()
