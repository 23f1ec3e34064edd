"""A program of several workers, started with one."""

import json
import os

import tensorflow as tf

config = json.loads(os.environ["TF_CONFIG"])
print(tf.__version__, len(config["cluster"]["worker"]))
